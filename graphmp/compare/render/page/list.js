// A list of any length in a document of a fixed size: only the rows in sight are there. All rows have one height.

const SPARE = 6; // rows kept above and below those in sight

class List {
  // `draw(index)` makes the element of a row; the frame scrolls.
  constructor(frame, rowHeight, draw) {
    this.frame = frame;
    this.rowHeight = rowHeight;
    this.draw = draw;
    this.length = 0;
    this.shown = new Map(); // index: element
    this.spacer = make('div', { class: 'spacer', role: 'presentation' });
    frame.append(this.spacer);
    frame.addEventListener('scroll', () => this.fill(), { passive: true });
    new ResizeObserver(() => this.fill()).observe(frame);
  }

  // Draws anew, with so many rows.
  reset(length) {
    const focused = this.indexOf(document.activeElement);
    this.length = length;
    this.spacer.style.height = `${length * this.rowHeight}px`;
    for (const element of this.shown.values()) element.remove();
    this.shown.clear();
    this.fill();
    if (focused !== NONE && this.shown.has(focused)) this.shown.get(focused).focus();
  }

  // Puts in the rows that came into sight, takes out those that left.
  fill() {
    const { scrollTop, clientHeight } = this.frame;
    const first = Math.max(0, Math.floor(scrollTop / this.rowHeight) - SPARE);
    const last = Math.min(this.length, Math.ceil((scrollTop + clientHeight) / this.rowHeight) + SPARE);
    for (const [index, element] of this.shown) {
      if (index >= first && index < last) continue;
      element.remove();
      this.shown.delete(index);
    }
    for (let index = last - 1; index >= first; index--) if (!this.shown.has(index)) this.put(index);
  }

  put(index) {
    const element = this.draw(index);
    element.style.top = `${index * this.rowHeight}px`;
    this.shown.set(index, element);
    this.spacer.insertBefore(element, this.shown.get(index + 1) || null); // readers go by the order in the document
  }

  // Scrolls as little as is needed, so that some rows around are in sight too.
  scrollTo(index) {
    const { scrollTop, clientHeight } = this.frame;
    const margin = Math.min(3 * this.rowHeight, clientHeight / 3);
    const top = index * this.rowHeight;
    if (top < scrollTop + margin) this.frame.scrollTop = top - margin;
    else if (top + this.rowHeight > scrollTop + clientHeight - margin) this.frame.scrollTop = top + this.rowHeight + margin - clientHeight;
    this.fill();
  }

  // As many rows as are in sight.
  get pageSize() {
    return Math.max(1, Math.floor(this.frame.clientHeight / this.rowHeight) - 1);
  }

  indexOf(element) {
    for (const [index, shown] of this.shown) if (shown === element) return index;
    return NONE;
  }
}
