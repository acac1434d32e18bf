"""The second way of messages whose contract wants one: published and received at a mirror broker as well."""
