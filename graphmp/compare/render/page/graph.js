// Both graphs as columns of numbers. A row of the tree is a scope, a node, or both; a row's number is its place in the whole tree.
// A node is a record; a row has one on each side where it is there, and one for both where nothing differs.

const BEFORE = 0;
const AFTER = 1;
const CONTROL = -1; // the output that a control input reads
const NONE = -1;

// What a row is, as page_data/tree.py has it.
const IN_BEFORE = 1;
const IN_AFTER = 2;
const SAME = 4;
const FIELD = 8;
const SECTION = 16;
const IN_FUNCTION = 32;

const HALF = new Set(['float16', 'bfloat16']);

class Graph {
  constructor(data) {
    const { rows, nodes } = data;
    this.strings = data.strings;
    this.pairs = data.pairs;
    this.sets = data.sets;
    this.size = rows.depth.length;
    this.depth = rows.depth;
    this.labels = rows.label;
    this.what = rows.what;
    this.renamed = new Map();
    for (let i = 0; i < rows.renamed.length; i += 2) this.renamed.set(rows.renamed[i], this.strings[rows.renamed[i + 1]]);
    this.nest();
    this.number(nodes);
    this.readEdges(nodes);
    this.consumerLists = [null, null];
  }

  // The parent of each row, and the row behind the last one inside it. Parent of a row at the top is NONE.
  nest() {
    this.parent = new Int32Array(this.size);
    this.end = new Int32Array(this.size);
    const open = [];
    for (let row = 0; row < this.size; row++) {
      while (open.length > this.depth[row]) this.end[open.pop()] = row;
      this.parent[row] = open.length ? open[open.length - 1] : NONE;
      open.push(row);
    }
    for (const row of open) this.end[row] = this.size;
  }

  // Which record a row has on each side.
  number(nodes) {
    this.at = [new Int32Array(this.size).fill(NONE), new Int32Array(this.size).fill(NONE)];
    this.rowOf = new Int32Array(nodes.op.length);
    let next = 0;
    for (let row = 0; row < this.size; row++) {
      const what = this.what[row];
      if (what & IN_BEFORE) this.at[BEFORE][row] = this.take(next++, row);
      if (what & IN_AFTER) this.at[AFTER][row] = what & SAME ? this.at[BEFORE][row] : this.take(next++, row);
    }
    this.op = nodes.op;
    this.device = nodes.device;
    this.attributes = nodes.attributes;
  }

  take(record, row) {
    this.rowOf[record] = row;
    return record;
  }

  readEdges(nodes) {
    const records = nodes.op.length;
    this.firstEdge = new Int32Array(records + 1);
    this.source = new Int32Array(nodes.above.length);
    this.output = nodes.output;
    for (let record = 0, edge = 0; record < records; record++) {
      let source = this.rowOf[record];
      for (const stop = edge + nodes.inputs[record]; edge < stop; edge++) {
        source -= nodes.above[edge];
        this.source[edge] = source;
      }
      this.firstEdge[record + 1] = edge;
    }
  }

  label(row) {
    return this.strings[this.labels[row]];
  }

  hasChildren(row) {
    return this.end[row] > row + 1;
  }

  isNode(row) {
    return (this.what[row] & (IN_BEFORE | IN_AFTER)) !== 0;
  }

  // All full names, made once. A field of the MetaGraphDef is not named for the section that it is shown in.
  get paths() {
    if (!this.madePaths) {
      this.madePaths = [];
      for (let row = 0; row < this.size; row++) {
        const top = this.parent[row] === NONE || this.what[row] & FIELD;
        this.madePaths.push(top ? this.label(row) : `${this.madePaths[this.parent[row]]}/${this.label(row)}`);
      }
    }
    return this.madePaths;
  }

  // The full name; the one in the original where that is another.
  path(row, side = AFTER) {
    return side === BEFORE && this.renamed.has(row) ? this.renamed.get(row) : this.paths[row];
  }

  find(path) {
    const row = this.paths.findIndex((other, candidate) => other === path && this.isNode(candidate));
    return row === NONE ? this.paths.indexOf(path) : row;
  }

  opText(row, side) {
    const record = this.at[side][row];
    return record === NONE ? '' : this.strings[this.op[record]];
  }

  // What a node computes in, in short.
  dtypeText(row, side) {
    const record = this.at[side][row];
    return record === NONE ? '' : this.strings[this.sets[this.attributes[record]][0]];
  }

  isHalf(row, side) {
    return HALF.has(this.dtypeText(row, side).split('→').pop());
  }

  // Pairs of name and text.
  attributePairs(row, side) {
    const record = this.at[side][row];
    const [, ...pairs] = record === NONE ? [0] : this.sets[this.attributes[record]];
    return pairs.map((pair) => [this.strings[this.pairs[2 * pair]], this.strings[this.pairs[2 * pair + 1]]]);
  }

  // The inputs of a node: [row, output], the control inputs last.
  inputs(row, side) {
    const record = this.at[side][row];
    const found = [];
    if (record === NONE) return found;
    for (let edge = this.firstEdge[record]; edge < this.firstEdge[record + 1]; edge++) found.push([this.source[edge], this.output[edge]]);
    return found;
  }

  // The rows that read a node, each once, those that only wait for it included.
  consumers(row, side) {
    const { first, reader } = (this.consumerLists[side] = this.consumerLists[side] || this.turned(side));
    return [...new Set(reader.subarray(first[row], first[row + 1]))];
  }

  // All edges of a side by where they start.
  turned(side) {
    const first = new Int32Array(this.size + 1);
    this.eachEdge(side, (source) => first[source + 1]++);
    for (let row = 0; row < this.size; row++) first[row + 1] += first[row];
    const next = first.slice();
    const reader = new Int32Array(first[this.size]);
    this.eachEdge(side, (source, row) => (reader[next[source]++] = row));
    return { first, reader };
  }

  eachEdge(side, visit) {
    for (let row = 0; row < this.size; row++) {
      const record = this.at[side][row];
      if (record === NONE) continue;
      for (let edge = this.firstEdge[record]; edge < this.firstEdge[record + 1]; edge++) visit(this.source[edge], row);
    }
  }
}

// An input as a NodeDef writes it: `x`, `x:1`, `^x`.
function portText(name, output) {
  if (output === CONTROL) return `^${name}`;
  return output === 0 ? name : `${name}:${output}`;
}
