"""What may not pass the border of the domain: where its messages end, and the book of them."""
