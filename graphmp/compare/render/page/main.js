// Reads the data and starts the page.

async function main() {
  if (typeof DecompressionStream === 'undefined') {
    fail('This browser is too old for the page: it has no DecompressionStream, which came in 2023.');
    return;
  }
  const page = new Page(await decoded(byId('data').textContent));
  byId('data').remove();
  fillHelp();
  listenToKeys(page);
  byId('search').addEventListener('input', (event) => page.search(event.target.value));
  byId('only-changed').addEventListener('click', () => page.toggleOnlyChanged());
  byId('expand').addEventListener('click', () => page.openAll(true));
  byId('collapse').addEventListener('click', () => page.openAll(false));
  byId('toggle-review').addEventListener('click', () => page.toggleReview());
  byId('clear').addEventListener('click', () => page.clear());
  byId('show-help').addEventListener('click', () => byId('help').showModal());
  byId('close-help').addEventListener('click', () => byId('help').close());
  window.addEventListener('hashchange', () => page.state.restore());
  window.addEventListener('resize', () => page.drawing.show());
  document.body.classList.add('ready');
  page.state.restore();
  if (window === window.top) byId('tree').focus({ preventScroll: true }); // a notebook keeps the focus
}

function fail(message) {
  byId('failure').textContent = message;
  byId('failure').hidden = false;
}

main().catch((error) => fail(`The page can't be shown: ${error.message}`));
