"""Every setting, read once. The environment and the settings file are read here and nowhere else."""

from quipu.config.described import PUBLISHED_LIMITS, SETTINGS, Setting
from quipu.config.loading import (
    cache_dir,
    data_dir,
    database_url,
    load,
    misspelt,
    of_the_cluster,
    settings_file,
)
from quipu.config.values import Config

__all__ = [
    "PUBLISHED_LIMITS",
    "SETTINGS",
    "Config",
    "Setting",
    "cache_dir",
    "data_dir",
    "database_url",
    "load",
    "misspelt",
    "of_the_cluster",
    "settings_file",
]
