// The drawing of a node's neighbourhood on both sides, below the tree or in place of it.

const MODES = ['small', 'large', 'off'];
const BOXES = {
  small: { width: 104, height: 32, across: 22, down: 6 },
  large: { width: 148, height: 36, across: 40, down: 8 },
};
const MOST_IN_COLUMN = { small: 12, large: 30 };
const MOST_HOPS = { small: 2, large: 3 };
const LETTER = 6.1; // width of a letter
const SMALLEST = 0.85; // scale down to which a drawing is shrunk to fit
const MARGIN = 12;

class Drawing {
  constructor(page) {
    this.page = page;
    this.element = byId('drawing');
    this.mode = 'small';
    byId('drawing-larger').addEventListener('click', () => this.setMode(this.mode === 'large' ? 'small' : 'large'));
    byId('drawing-close').addEventListener('click', () => this.setMode('off'));
  }

  // Small, large, off, and round again.
  cycle() {
    this.setMode(MODES[(MODES.indexOf(this.mode) + 1) % MODES.length]);
  }

  setMode(mode) {
    this.mode = mode;
    this.show();
    this.page.tree.scrollToSelected();
    this.page.save();
  }

  // Whether more than a name is known of what is selected.
  get drawable() {
    const { graph, selected } = this.page;
    return selected !== NONE && [BEFORE, AFTER].some((side) => graph.opText(selected, side) !== '');
  }

  show() {
    const visible = this.mode !== 'off' && this.drawable;
    this.element.hidden = !visible;
    document.body.classList.toggle('large-drawing', visible && this.mode === 'large');
    byId('drawing-larger').textContent = this.mode === 'large' ? 'smaller' : 'larger';
    if (visible) for (const side of [BEFORE, AFTER]) this.draw(side);
  }

  draw(side) {
    const { graph, selected } = this.page;
    const frame = byId(side === BEFORE ? 'drawing-before' : 'drawing-after');
    if (graph.at[side][selected] === NONE) {
      frame.replaceChildren(make('p', { class: 'hint' }, side === BEFORE ? 'not in the original' : 'not in the converted graph'));
      return;
    }
    const box = BOXES[this.mode];
    const room = frame.clientWidth - 2 * MARGIN;
    const hops = Math.floor((room / SMALLEST / (box.width + box.across) - 1) / 2); // as many as fit
    const limits = { box, hops: Math.max(1, Math.min(MOST_HOPS[this.mode], hops)), mostInColumn: MOST_IN_COLUMN[this.mode] };
    const layout = laidOut(graph, side, selected, limits);
    const svg = this.svg(layout, side, box);
    frame.replaceChildren(svg);
    const scale = Math.max(SMALLEST, Math.min(1, room / layout.width));
    svg.style.width = `${layout.width * scale}px`;
    svg.style.height = `${layout.height * scale}px`;
    frame.scrollLeft = (layout.start.x + box.width / 2) * scale - room / 2;
    frame.scrollTop = (layout.start.y + box.height / 2) * scale + MARGIN - frame.clientHeight / 2;
  }

  svg({ boxes, edges, notes, width, height }, side, box) {
    const label = `around the selected node, ${this.page.names[side]}`;
    return makeSvg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': label },
      ...edges.map((edge) => edgePath(edge, box)),
      ...boxes.map((place) => this.node(place, side, box)),
      ...notes.map(({ x, y, count }) => (
        makeSvg('text', { class: 'note', x: x + box.width / 2, y: y + box.height / 2 }, `and ${number(count)} more`))));
  }

  node({ row, x, y }, side, box) {
    const { graph, changes, selected } = this.page;
    const path = graph.path(row, side);
    const [op, dtype] = [graph.opText(row, side), graph.dtypeText(row, side)];
    const cast = op === 'Cast';
    const [mark] = marksOf(changes, row);
    const sign = mark ? `${MARKS[mark][0]} ` : '';
    const letters = Math.floor((box.width - (cast ? 20 : 8)) / LETTER);
    const choose = () => this.page.follow(row);
    return makeSvg('g', {
      class: ['box', cast && 'cast', graph.isHalf(row, side) && 'half', row === selected && 'selected', mark].filter(Boolean).join(' '),
      transform: `translate(${x} ${y})`, tabindex: 0, role: 'button', 'aria-label': `${path}, ${op} ${dtype}`, 'data-row': row,
      onclick: choose,
      onkeydown: (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        choose();
      },
    },
    makeSvg('title', {}, `${path}\n${op} ${dtype}`),
    makeSvg('rect', { width: box.width, height: box.height, rx: cast ? box.height / 2 : 4 }),
    makeSvg('text', { class: 'box-name', x: box.width / 2, y: box.height / 2 - 3 }, sign + elided(path.split('/').pop(), letters - sign.length)),
    makeSvg('text', { class: 'box-op', x: box.width / 2, y: box.height / 2 + 10 }, shortOp(op, dtype, letters)));
  }
}

// Op and dtype; the op gives way where both are too long. A cast says what it casts.
function shortOp(op, dtype, letters) {
  if (op === 'Cast') return elided(dtype.length > letters ? dtype.replace(/^.*→/, '→') : dtype, letters);
  return `${elided(op, letters - dtype.length - 1)} ${dtype}`;
}

// A curve with an arrow; one that doesn't lead to the right goes around.
function edgePath({ from, to, control }, box) {
  const [x1, y1, y2] = [from.x + box.width, from.y + box.height / 2, to.y + box.height / 2];
  const aside = to.x === from.x;
  const back = to.x < from.x;
  const x2 = aside || back ? to.x + box.width : to.x;
  const start = back ? from.x : x1;
  const bend = aside ? box.across * 0.8 : (x2 - start) / 2;
  const tip = aside || back ? 5 : -5;
  const curve = `M${start} ${y1}C${start + bend} ${y1} ${aside ? x2 + bend : x2 - bend} ${y2} ${x2} ${y2}`;
  return makeSvg('path', { class: control ? 'edge control' : 'edge', d: `${curve}M${x2 + tip} ${y2 - 3}L${x2} ${y2}L${x2 + tip} ${y2 + 3}` });
}

// A text cut to so many letters in its middle: names differ most at their ends.
function elided(text, letters) {
  const most = Math.max(3, letters);
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) / 2);
  return `${text.slice(0, most - 1 - tail)}\u2026${text.slice(text.length - tail)}`;
}
