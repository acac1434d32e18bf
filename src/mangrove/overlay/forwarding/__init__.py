"""Where frames go: flows out of this domain, the way of each frame, frames without a way."""
