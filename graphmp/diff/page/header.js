// The head of the page: what needs a look, loudly, and the checks.

const CHECK_SIGNS = { passed: '\u2713', failed: '\u2717', 'not checked': '\u2013' };
const CHECK_ORDER = ['passed', 'not checked'];
const CHECK_WORDS = { failed: 'failed', passed: 'passed', 'not checked': 'not applicable' };
const MOST_NAMED = 3; // nodes named in a line
const MOST_STALE = 100; // rows of a report listed

class Header {
  constructor(page) {
    this.page = page;
    this.buttons = [];
    this.fillChecks();
    this.fillAttention();
  }

  // The failed ones at once, the others behind a line that counts them.
  fillChecks() {
    const { checks } = this.page;
    const others = byId('other-checks');
    byId('checks').hidden = !checks.length;
    this.fillList(byId('failed-checks'), ['failed']);
    this.fillList(others.querySelector('ul'), CHECK_ORDER);
    byId('failed-checks').hidden = !byId('failed-checks').children.length;
    others.hidden = !others.querySelector('ul').children.length;
    const counts = CHECK_ORDER.map((status) => [checks.filter((check) => check.status === status).length, CHECK_WORDS[status]]);
    others.querySelector('summary').append(
      make('span', { class: 'sign', 'aria-hidden': 'true' }, CHECK_SIGNS.passed),
      `Checks: ${counts.filter(([count]) => count).map(([count, word]) => `${count} ${word}`).join(', ')}`);
  }

  fillList(list, statuses) {
    const { checks } = this.page;
    for (const index of statuses.flatMap((status) => checks.map((_, place) => place).filter((place) => checks[place].status === status))) {
      const check = checks[index];
      const button = make('button', {
        type: 'button', class: `check ${check.status.replace(' ', '-')}`, title: CHECK_WORDS[check.status], onclick: () => this.page.chooseCheck(index),
      },
      make('span', { class: 'sign', 'aria-hidden': 'true' }, CHECK_SIGNS[check.status]),
      make('span', { class: 'check-name' }, check.name, make('span', { class: 'spoken' }, `, ${CHECK_WORDS[check.status]}:`)),
      make('span', { class: 'check-text' }, check.text));
      if (!check.rows.length) button.disabled = true;
      this.buttons.push([button, index]);
      list.append(make('li', {}, button));
    }
  }

  fillAttention() {
    const parts = [this.unexplained(), this.stale()].filter(Boolean);
    byId('attention').hidden = !parts.length;
    byId('attention').append(...parts);
  }

  unexplained() {
    const { totals, changes, graph } = this.page;
    if (!totals.unexplained) return null;
    const rows = new Set();
    for (let change = 0; change < changes.size && rows.size < MOST_NAMED; change++) {
      if (changes.isUnexplained(change)) rows.add(changes.columns.row[change]);
    }
    const ask = () => this.page.ask('status', ['unexplained']);
    return make('p', {},
      make('button', { type: 'button', class: 'alarm-button', onclick: ask }, `${plural(totals.unexplained, 'change')} unexplained`),
      ' The report has no reason for ', ...[...rows].flatMap((row, index) => [index ? ', ' : '', this.page.link(row, graph.path(row))]),
      totals.unexplained > rows.size ? ' \u2026' : '.');
  }

  stale() {
    const { stale } = this.page;
    if (!stale.length) return null;
    const most = stale.slice(0, MOST_STALE);
    const more = stale.length - most.length;
    return make('details', {},
      make('summary', {}, make('b', {}, `The report is stale: the graphs don't have ${plural(stale.length, 'change')} that it tells of`)),
      make('ul', {}, ...most.map(({ text, row }) => make('li', {}, row === NONE ? text : this.page.link(row, text))),
        more > 0 && make('li', {}, `and ${number(more)} more`)));
  }

  show() {
    for (const [button, index] of this.buttons) button.setAttribute('aria-pressed', String(this.page.filters.chosen.check.has(index)));
  }
}
