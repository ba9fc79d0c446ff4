// The way of the loss scale as a drawing: a row of boxes for each loss, each of which selects its nodes.

const FLOW_BOX = { width: 128, height: 40, across: 20, down: 10 };
const FLOW_MARGIN = 2;

class Flow {
  constructor(page, losses) {
    this.page = page;
    this.losses = losses;
    this.element = byId('flow');
    this.element.hidden = !losses.length;
    new ResizeObserver(() => this.element.clientWidth !== this.width && this.show()).observe(this.element);
    this.show(); // at once: it takes room from the tree
  }

  // As many boxes in a line as there is room for.
  show() {
    this.width = this.element.clientWidth;
    const columns = Math.max(1, Math.floor((this.width + FLOW_BOX.across) / (FLOW_BOX.width + FLOW_BOX.across)));
    this.element.replaceChildren(...this.losses.map((stages) => this.row(stages, columns)));
  }

  row(stages, columns) {
    const { width, height, across, down } = FLOW_BOX;
    const lines = Math.ceil(stages.length / columns);
    const most = Math.ceil(stages.length / lines); // lines of one length, where they can be
    const places = stages.map((stage, index) => ({ stage, x: (index % most) * (width + across), y: Math.floor(index / most) * (height + down) }));
    const size = [most * (width + across) - across + 2 * FLOW_MARGIN, lines * (height + down) - down + 2 * FLOW_MARGIN];
    const spoken = `The way of the loss scale: ${stages.map(({ title, text }) => `${title}, ${text}`).join('; ')}`;
    return makeSvg('svg', {
      width: size[0], height: size[1], viewBox: `${-FLOW_MARGIN} ${-FLOW_MARGIN} ${size[0]} ${size[1]}`, role: 'group', 'aria-label': spoken,
    },
    ...places.slice(1).map((to, index) => flowArrow(places[index], to)),
    ...places.map((place) => this.box(place)));
  }

  box({ stage, x, y }) {
    const { width, height } = FLOW_BOX;
    const { title, text, rows, names } = stage;
    let next = 0;
    const choose = () => this.page.follow(rows[next++ % rows.length]);
    const attributes = rows.length ? {
      tabindex: 0, role: 'button', onclick: choose, 'aria-label': `${title}: ${text}${rows.length > 1 ? '; again for the next' : ''}`,
      onkeydown: (event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return;
        event.preventDefault();
        choose();
      },
    } : {};
    return makeSvg('g', { class: rows.length ? `stage ${stage.shape}` : 'stage absent', transform: `translate(${x} ${y})`, ...attributes },
      makeSvg('title', {}, [`${title}: ${text}`, ...names].join('\n')),
      makeSvg('rect', { width, height, rx: 6 }),
      makeSvg('text', { class: 'stage-title', x: width / 2, y: 16 }, title),
      makeSvg('text', { class: 'stage-text', x: width / 2, y: 31 }, elided(text, Math.floor((width - 8) / LETTER))));
  }
}

// To the right, or down and back to the left where a line ends.
function flowArrow({ x, y }, to) {
  const { width, height, across, down } = FLOW_BOX;
  const middle = y + height / 2;
  if (to.y === y) return arrow(`M${x + width} ${middle}H${to.x}`, `M${to.x - 5} ${middle - 3}L${to.x} ${middle}L${to.x - 5} ${middle + 3}`);
  const [below, end] = [y + height + down / 2, to.x + width / 2];
  return arrow(`M${x + width / 2} ${y + height}V${below}H${end}V${to.y}`, `M${end - 3} ${to.y - 5}L${end} ${to.y}L${end + 3} ${to.y - 5}`);
}

function arrow(line, tip) {
  return makeSvg('path', { class: 'edge', d: line + tip });
}
