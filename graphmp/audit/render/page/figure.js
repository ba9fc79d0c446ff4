// Histograms of one tensor, on the axes that the page brings along.

class Figures {
  constructor(frame) {
    this.frame = frame;
    this.zones = [...new Set(frame.bins.map(([, , zone]) => zone))];
  }

  // The share of the values in each bar.
  shares(tensor) {
    const shares = this.frame.bins.map(() => 0);
    let total = 0;
    tensor.exponents.forEach((count, index) => {
      shares[this.frame.fields[tensor.first_exponent_field + index]] += count;
      total += count;
    });
    return shares.map((count) => count / Math.max(1, total));
  }

  logHeight(share) {
    return share ? Math.max(0.01, 1 + Math.log10(share) / this.frame.decades) : 0;
  }

  // A large figure: the axes of the page with bars on both of them.
  large(tensor) {
    const figure = byId('frame').content.firstElementChild.cloneNode(true);
    const shares = this.shares(tensor);
    const largest = Math.max(...shares.slice(1, -1));
    const top = [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8].find((end) => largest <= end) || 1;
    const labels = figure.querySelectorAll('.linear .tick');
    [0.5, 1].forEach((part, index) => (labels[index].textContent = `${+(100 * part * top).toPrecision(3)}%`));
    this.addBars(figure.querySelector('.log'), shares, (share) => this.logHeight(share));
    this.addBars(figure.querySelector('.linear'), shares, (share) => share / top);
    figure.setAttribute('aria-label', `histogram of exponents of ${tensor.name}`);
    return figure;
  }

  addBars(group, shares, heightOf) {
    const { bins, top, bottom } = this.frame;
    for (const wanted of this.zones) {
      const path = bins.map(([x, width, zone], index) => {
        if (zone !== wanted || !shares[index]) return '';
        const y = bottom - (bottom - top) * Math.min(1, heightOf(shares[index]));
        return `M${(x + 0.4).toFixed(1)} ${bottom}V${y.toFixed(1)}h${Math.max(0.6, width - 0.8).toFixed(1)}V${bottom}z`;
      });
      group.append(makeSvg('path', { class: `bar ${wanted}`, d: path.join('') }));
    }
  }

  // A figure the size of a word.
  small(tensor) {
    const { bins } = this.frame;
    const shares = this.shares(tensor);
    const [first, last] = [bins[1][0], bins[bins.length - 2][0] + bins[bins.length - 2][1]];
    const figure = makeSvg('svg', { class: 'spark', viewBox: '0 0 100 20', preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    for (const wanted of this.zones) {
      const inside = bins.filter(([, , zone]) => zone === wanted);
      const place = (x) => ((x - first) / (last - first)) * 100;
      if (wanted === 'zero' || wanted === 'not-finite') continue;
      const [x, end] = [place(inside[0][0]), place(inside[inside.length - 1][0] + inside[inside.length - 1][1])];
      figure.append(makeSvg('rect', { class: `zone ${wanted}`, x: x.toFixed(1), y: 0, width: (end - x).toFixed(1), height: 20 }));
      const path = bins.map(([at, width, zone], index) => {
        if (zone !== wanted || !shares[index]) return '';
        const height = 19 * this.logHeight(shares[index]);
        return `M${place(at).toFixed(1)} 20v${(-height).toFixed(1)}h${((width / (last - first)) * 100).toFixed(2)}v${height.toFixed(1)}z`;
      });
      figure.append(makeSvg('path', { class: `bar ${wanted}`, d: path.join('') }));
    }
    return figure;
  }
}
