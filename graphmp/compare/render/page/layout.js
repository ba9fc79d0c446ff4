// The nodes around a node in columns by their distance: what it reads at left, what reads it at right.

const MOST_DRAWN = 150; // nodes a side

// Boxes are `box.width` by `box.height`, `box.across` and `box.down` apart. Returns
//   boxes: {row, x, y} each, and `start`, the one of the node in the middle
//   edges: {from, to, control} between boxes
//   notes: {x, y, count} on how many nodes were left out
//   width, height
function laidOut(graph, side, start, { hops, mostInColumn, box }) {
  const { columns, leftOut } = neighbourhood(graph, side, start, hops, mostInColumn);
  const boxes = new Map();
  const notes = [];
  const first = Math.min(...columns.keys());
  const tallest = Math.max(...[...columns.keys()].map((column) => columns.get(column).length + (leftOut.has(column) ? 1 : 0)));
  const step = box.height + box.down;
  for (const [column, rows] of columns) {
    const count = rows.length + (leftOut.has(column) ? 1 : 0);
    const x = (column - first) * (box.width + box.across);
    const top = ((tallest - count) * step) / 2;
    rows.forEach((row, index) => boxes.set(row, { row, x, y: top + index * step }));
    if (leftOut.has(column)) notes.push({ x, y: top + rows.length * step, count: leftOut.get(column) });
  }
  const edges = [];
  for (const to of boxes.values()) {
    for (const [row, output] of graph.inputs(to.row, side)) if (boxes.has(row)) edges.push({ from: boxes.get(row), to, control: output === CONTROL });
  }
  const size = { width: columns.size * (box.width + box.across) - box.across, height: tallest * step - box.down };
  return { boxes: [...boxes.values()], edges, notes, ...size, start: boxes.get(start) };
}

// Columns by number, the start's is 0; how many nodes each leaves out.
function neighbourhood(graph, side, start, hops, mostInColumn) {
  const columns = new Map([[0, [start]]]);
  const leftOut = new Map();
  const seen = new Set([start]);
  let drawn = 1;
  const grow = (column, from, next) => {
    const found = new Map(); // row: the places of those in the column before that led to it
    (columns.get(from) || []).forEach((row, place) => {
      for (const other of next(row)) if (!seen.has(other)) found.set(other, [...(found.get(other) || []), place]);
    });
    const middle = (row) => found.get(row).reduce((sum, place) => sum + place, 0) / found.get(row).length;
    const sorted = [...found.keys()].sort((a, b) => middle(a) - middle(b) || a - b);
    const kept = sorted.slice(0, Math.min(mostInColumn, MOST_DRAWN - drawn));
    drawn += kept.length;
    if (kept.length) columns.set(column, kept);
    if (kept.length && sorted.length > kept.length) leftOut.set(column, sorted.length - kept.length);
    for (const row of sorted) seen.add(row);
  };
  for (let hop = 1; hop <= hops; hop++) {
    grow(-hop, 1 - hop, (row) => graph.inputs(row, side).map(([source]) => source));
    grow(hop, hop - 1, (row) => graph.consumers(row, side));
  }
  return { columns, leftOut };
}
