// The tables as bars, on a logarithmic scale: what takes ten times as long is one step longer.

const COLORS = ["#a8471f", "#6f86a8", "#9db3cf", "#4b7f52", "#c2b280", "#8fbd95"];
const BAR = 9;
const GAP = 12;
const LABELS = 230;
const WIDTH = 430;
const PANEL = LABELS + WIDTH + 80;
const TOP = 70;
/** Each row has the same scale, from a hundredth of a unit to ten thousand. */
const [LEAST, MOST] = [0.01, 10_000];

const length = (value) => (Math.log(Math.max(value, LEAST) / LEAST) / Math.log(MOST / LEAST)) * WIDTH;
const text = (x, y, words, extra = "") => `<text x="${x}" y="${y}" ${extra}>${words}</text>`;

/** `panels` have a title and rows of a title and a value for each of `names`. */
export function plot(panels, names) {
  const rowHeight = names.length * BAR + GAP;
  const panelHeight = 40 + Math.max(...panels.map(({ rows }) => rows.length)) * rowHeight + 30;
  const height = TOP + Math.ceil(panels.length / 2) * panelHeight;
  const legend = names.map((name, i) => {
    const x = 20 + i * 130;
    return `<rect x="${x}" y="34" width="12" height="12" fill="${COLORS[i]}"/>${text(x + 18, 45, name)}`;
  });
  const drawn = panels.map((panel, i) => `<g transform="translate(${20 + (i % 2) * PANEL}, ${TOP + Math.floor(i / 2) * panelHeight})">${draw(panel, rowHeight)}</g>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${2 * PANEL} ${height}" font-family="sans-serif" font-size="11" fill="#2a2118">
<rect width="100%" height="100%" fill="#fff"/>
${text(20, 22, "pipkin beside its peers: lower is better, logarithmic scale", 'font-size="15" font-weight="bold"')}
${legend.join("\n")}
${drawn.join("\n")}
</svg>
`;
}

function draw({ title, rows }, rowHeight) {
  const bottom = 14 + rows.length * rowHeight;
  const parts = [text(0, 0, title, 'font-size="13" font-weight="bold"')];
  for (let tick = LEAST; tick <= MOST * 1.01; tick *= 10) {
    const x = LABELS + length(tick);
    parts.push(`<line x1="${x}" x2="${x}" y1="10" y2="${bottom}" stroke="#e4dacb"/>`, text(x, bottom + 12, Number(tick.toPrecision(1)).toLocaleString("en"), 'text-anchor="middle" fill="#6b5d4d"'));
  }
  rows.forEach(({ title, values }, row) => {
    const y = 14 + row * rowHeight;
    parts.push(text(LABELS - 8, y + rowHeight / 2 - 2, title, 'text-anchor="end"'));
    values.forEach((value, i) => {
      if (value === undefined) return;
      const at = y + i * BAR;
      parts.push(`<rect x="${LABELS}" y="${at}" width="${length(value).toFixed(1)}" height="${BAR - 1}" fill="${COLORS[i]}"/>`);
      parts.push(text((LABELS + length(value) + 4).toFixed(1), at + BAR - 2, value < 100 ? Number(value.toPrecision(2)) : value.toFixed(0), 'font-size="8"'));
    });
  });
  return parts.join("\n");
}
