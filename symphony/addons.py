"""DockerBuilder and clean_images, where programs for the original Symphony import them."""

from symphony.classic.docker_builder import DockerBuilder as DockerBuilder
from symphony.classic.docker_builder import clean_images as clean_images

__all__ = ["DockerBuilder", "clean_images"]
