"use strict";
(() => {
  const root = document.documentElement, tip = document.getElementById("tip");
  const show = (text, event) => {
    tip.textContent = text;
    tip.style.visibility = "visible";
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 6)) + "px";
    tip.style.top = Math.max(4, Math.min(event.clientY + 16, innerHeight - box.height - 6)) + "px";
  };
  const hide = () => { tip.style.visibility = "hidden"; };
  document.addEventListener("pointermove", (event) => {
    const marked = event.target.closest ? event.target.closest("[data-t]") : null;
    if (marked) show(marked.getAttribute("data-t"), event);
    else if (event.target.tagName !== "CANVAS") hide();
  });
  document.addEventListener("pointerleave", hide);

  const colour = (name) => {
    const text = getComputedStyle(root).getPropertyValue(name).trim();
    return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  };
  const matrices = [...document.querySelectorAll("canvas[data-matrix]")].map((canvas) => {
    const found = JSON.parse(document.getElementById(canvas.dataset.matrix).textContent);
    const size = found.names.length;
    const values = Int8Array.from(atob(found.values), (each) => each.charCodeAt(0));
    canvas.width = canvas.height = size;
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      const at = (offset, length) => Math.max(0, Math.min(size - 1, Math.floor(offset / length * size)));
      return [at(event.clientY - box.top, box.height), at(event.clientX - box.left, box.width)];
    };
    canvas.addEventListener("pointermove", (event) => {
      const [row, column] = place(event);
      const value = (values[row * size + column] / 100).toFixed(2);
      show(found.names[row] + "\n" + found.names[column] + "\ncorrelation " + value, event);
    });
    canvas.addEventListener("pointerleave", hide);
    return () => {
      const context = canvas.getContext("2d"), image = context.createImageData(size, size);
      const [zero, cold, warm] = ["--zero", "--cold", "--warm"].map(colour);
      values.forEach((value, at) => {
        const share = Math.min(1, Math.abs(value) / 100), end = value < 0 ? cold : warm;
        for (let part = 0; part < 3; part += 1)
          image.data[4 * at + part] = zero[part] + share * (end[part] - zero[part]);
        image.data[4 * at + 3] = 255;
      });
      context.putImageData(image, 0, 0);
    };
  });
  const draw = () => matrices.forEach((each) => each());
  document.getElementById("look").addEventListener("click", () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    root.dataset.look = (root.dataset.look || system) === "dark" ? "light" : "dark";
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
})();
