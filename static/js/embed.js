// Tells the page around an embed how high it is: once loaded, and whenever that changes.
// Two messages, both with the height in CSS pixels: this project's own, and the one that
// learning platforms understand (LTI). Nothing is read from the outside.

const { slug, panel } = document.body.dataset;
let told = 0;

function tell() {
  const height = Math.ceil(document.body.getBoundingClientRect().height);
  if (height === told || window.parent === window) {
    return;
  }
  told = height;
  window.parent.postMessage({ type: "explorable-attention:height", slug, panel, height }, "*");
  window.parent.postMessage(JSON.stringify({ subject: "lti.frameResize", height }), "*");
}

new ResizeObserver(tell).observe(document.body);
window.addEventListener("load", tell);
tell();
