// Figures that Plotly draws, in the colours of the theme. The library is fetched when somebody opens one.
const loading = new Map();

function library(url) {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  if (!loading.has(url)) {
    // The policy forbids style elements; the rules that Plotly would write are in
    // three_positions_plot.css, and this element tells it so.
    const mark = document.createElement("template");
    mark.id = "plotly.js-style-global";
    mark.className = "no-inline-styles";
    document.head.append(mark);
    loading.set(
      url,
      new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = url;
        script.onload = () => resolve(window.Plotly);
        script.onerror = () => {
          loading.delete(url);
          reject(new Error("the plotting library could not be loaded"));
        };
        document.head.append(script);
      }),
    );
  }
  return loading.get(url);
}

function palette(element) {
  const style = getComputedStyle(element);
  const resolve = (name) => {
    const probe = document.createElement("i");
    probe.className = `ink-${name}`;
    element.append(probe);
    const color = getComputedStyle(probe).color;
    probe.remove();
    return color;
  };
  return { family: style.fontFamily, of: resolve };
}

function themed(figure, element) {
  const { of, family } = palette(element);
  const [ink, soft, line, card] = ["ink", "soft", "line", "card"].map(of);
  const axes = Object.keys(figure.layout).filter((name) => /^[xy]axis/.test(name));
  for (const name of axes) {
    Object.assign(figure.layout[name], { gridcolor: line, linecolor: line, tickfont: { color: soft } });
    Object.assign(figure.layout[name], { spikecolor: soft, spikethickness: 1, spikedash: "dot" });
    figure.layout[name].title.font = { color: soft, size: 13 };
  }
  Object.assign(figure.layout, {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family, color: ink, size: 12.5 },
    hoverlabel: { bgcolor: card, bordercolor: line, font: { color: ink } },
  });
  for (const shape of figure.layout.shapes ?? []) shape.line.color = soft;
  for (const trace of figure.data) trace.line.color = of(trace.meta);
  return figure;
}

// --- Which figures are open ------------------------------------------------------------------------

const open = new Map(); // id → address of the description that is drawn; empty until the first is

function show(element, is) {
  element.hidden = !is;
  element.toggleAttribute("data-open", is);
  const button = document.querySelector(`[data-plot-open="${element.id}"]`);
  if (button) button.textContent = is ? button.dataset.back : button.dataset.label;
}

async function draw(element) {
  const { id, dataset } = element;
  const { source } = dataset;
  const [Plotly, description] = await Promise.all([
    library(dataset.library),
    fetch(source).then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status)))),
  ]);
  if (dataset.source !== source || !open.has(id)) return; // a later state is on its way, or it was closed
  show(element, true);
  // In a child, because an answer brings the element's own attributes back to what the template says.
  const canvas = element.firstElementChild ?? element.appendChild(document.createElement("div"));
  const figure = themed(description, element);
  await Plotly.react(canvas, figure.data, figure.layout, { displayModeBar: false, responsive: true });
  open.set(id, source);
}

function close(element) {
  open.delete(element.id);
  show(element, false);
}

function drawOrSay(element) {
  draw(element).catch(() => {
    close(element);
    const button = document.querySelector(`[data-plot-open="${element.id}"]`);
    if (button) button.textContent = "It could not be loaded. Try again";
  });
}

function redraw(always) {
  for (const [id, drawn] of open) {
    const element = document.getElementById(id);
    if (!element) continue;
    if (drawn) show(element, true);
    if (always || drawn !== element.dataset.source) drawOrSay(element);
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-plot-open]");
  const element = button && document.getElementById(button.dataset.plotOpen);
  if (!element) return;
  if (open.has(element.id)) return close(element);
  open.set(element.id, "");
  drawOrSay(element);
});

document.addEventListener("htmx:after:swap", () => redraw(false));
document.addEventListener("themechange", () => redraw(true));
