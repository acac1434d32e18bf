"""A ring of four sites of which a link and a site fail, under numbered traffic."""
