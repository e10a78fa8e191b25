// In a frame: tell the page around how high this document is, in the project's own words and in those
// that learning platforms understand (lti.frameResize), once and whenever it changes. Heights are CSS
// pixels. Nothing else is sent, and nothing is listened to.
if (window.parent !== window) {
  const { slug, panel } = document.body.dataset;
  let last = 0;
  const report = () => {
    const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
    if (height === last) return;
    last = height;
    window.parent.postMessage({ type: "explorable-attention:height", slug, panel, height, url: location.href }, "*");
    window.parent.postMessage({ subject: "lti.frameResize", height }, "*");
  };
  new ResizeObserver(report).observe(document.documentElement);
  window.addEventListener("load", report);
  report();
}
