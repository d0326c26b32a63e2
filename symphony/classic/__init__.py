"""The names of the original Symphony, one thin face over our own objects; plain scripts import them."""
