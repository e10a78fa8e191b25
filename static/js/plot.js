// Figures that Plotly draws, in the colours of the theme. The library is fetched when somebody opens one.
const loading = new Map();

function library(url) {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  if (!loading.has(url)) {
    // The policy forbids style elements; the rules that Plotly would write are in plot.css, and this
    // element tells it so.
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
        script.onerror = () => reject(new Error("the plotting library could not be loaded"));
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

async function draw(element) {
  const source = element.dataset.source;
  element.dataset.drawn = source;
  const [Plotly, description] = await Promise.all([
    library(element.dataset.library),
    fetch(source).then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status)))),
  ]);
  if (element.dataset.source !== source) return; // a later state is on its way
  const figure = themed(description, element);
  await Plotly.react(element, figure.data, figure.layout, { displayModeBar: false, responsive: true });
}

const redraw = (always) => {
  for (const element of document.querySelectorAll("[data-plot][data-open]")) {
    element.hidden = false;
    if (always || element.dataset.drawn !== element.dataset.source) draw(element).catch(() => delete element.dataset.drawn);
  }
};

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-plot-open]");
  const element = button && document.getElementById(button.dataset.plotOpen);
  if (!element) return;
  element.dataset.open = "";
  element.hidden = false;
  button.disabled = true;
  try {
    await draw(element);
    button.hidden = true;
  } catch {
    element.hidden = true;
    button.disabled = false;
    button.textContent = "The library could not be loaded. Try again";
  }
});

document.addEventListener("htmx:after:swap", () => redraw(false));
document.addEventListener("themechange", () => redraw(true));
