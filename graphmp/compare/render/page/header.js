// The head of the page: what needs a look, loudly, and the claims.

const CLAIM_SIGNS = { proved: '\u2713', failed: '\u2717', 'not proved': '?', 'not applicable': '\u2013' };
const OPEN_CLAIMS = ['failed', 'not proved'];
const OTHER_CLAIMS = ['proved', 'not applicable'];
const MOST_NAMED = 3; // nodes named in a line
const MOST_STALE = 100; // rows of a report listed

class Header {
  constructor(page) {
    this.page = page;
    this.buttons = [];
    this.fillClaims();
    this.fillAttention();
  }

  // Those that failed or are not proved at once, the others behind a line that counts them.
  fillClaims() {
    const { claims } = this.page;
    const others = byId('other-claims');
    byId('claims').hidden = !claims.length;
    this.fillList(byId('open-claims'), OPEN_CLAIMS);
    this.fillList(others.querySelector('ul'), OTHER_CLAIMS);
    byId('open-claims').hidden = !byId('open-claims').children.length;
    others.hidden = !others.querySelector('ul').children.length;
    const counts = OTHER_CLAIMS.map((verdict) => [claims.filter((claim) => claim.verdict === verdict).length, verdict]);
    others.querySelector('summary').append(
      make('span', { class: 'sign', 'aria-hidden': 'true' }, CLAIM_SIGNS.proved),
      `Claims: ${counts.filter(([count]) => count).map(([count, word]) => `${count} ${word}`).join(', ')}`);
  }

  fillList(list, verdicts) {
    const { claims } = this.page;
    for (const index of verdicts.flatMap((verdict) => claims.map((_, place) => place).filter((place) => claims[place].verdict === verdict))) {
      const claim = claims[index];
      const button = make('button', {
        type: 'button', class: `claim ${claim.verdict.replace(' ', '-')}`, title: claim.verdict, onclick: () => this.page.chooseClaim(index),
      },
      make('span', { class: 'sign', 'aria-hidden': 'true' }, CLAIM_SIGNS[claim.verdict]),
      make('span', { class: 'claim-name' }, claim.name, make('span', { class: 'spoken' }, `, ${claim.verdict}:`)),
      make('span', { class: 'claim-text' }, claim.text));
      if (!claim.rows.length) button.disabled = true;
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
    for (const [button, index] of this.buttons) button.setAttribute('aria-pressed', String(this.page.filters.chosen.claim.has(index)));
  }
}
