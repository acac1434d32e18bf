"""The federation file as pydantic models, a module for each part of it."""
