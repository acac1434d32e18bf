// Before anything is painted: light or dark, as was chosen here last, or as the system has it.
(() => {
  const chosen = localStorage.getItem("mangrove-theme");
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
