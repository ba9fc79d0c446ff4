// The right column as long as nothing is selected: what the marks mean.

function overview(page) {
  if (!page.changes.size) {
    return [make('h2', {}, 'No changes'), make('p', { class: 'hint' }, 'The two graphs are the same, but perhaps for the order of their nodes.')];
  }
  return [
    make('h2', {}, 'Marks'),
    make('ul', { class: 'legend' }, ...Object.keys(MARKS).filter((mark) => mark !== 'unexplained' || page.changes.hasReport)
      .map((mark) => make('li', {}, markElement(mark), ` ${MARKS[mark][1]}`)),
    make('li', {}, make('span', { class: 'half' }, page.halfWord), ' half precision')),
    make('p', { class: 'hint' }, 'Select a row for its details. ', make('kbd', {}, '?'), ' lists the keys.'),
  ];
}
