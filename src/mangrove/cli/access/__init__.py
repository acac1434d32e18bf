"""`mangrove access`: what the rules of access say."""
