"""The `mangrove` command. Modules here import the heavy rooms inside their functions, never at the top."""
