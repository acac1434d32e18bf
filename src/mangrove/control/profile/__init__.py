"""Who causes a broker's load: by topic and client, from what SDK clients report (ePEER §4.4.3)."""
