"""The pages of the live view: NiceGUI, served from this machine alone."""
