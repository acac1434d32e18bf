"""The SDK: publish and subscribe with contracts."""
