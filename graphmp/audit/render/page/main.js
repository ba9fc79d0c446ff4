// Starts the page. Without this script the worst tensors stand where the table would.

async function start() {
  addCopyButtons();
  const { frame, tensors } = await decoded(byId('data').textContent);
  if (tensors.length) {
    byId('tensors').hidden = false;
    const table = new Table(tensors, new Figures(frame));
    table.select(table.tensors[0]);
    document.body.classList.add('with-table');
  }
  document.body.classList.add('ready');
}

start().catch((error) => {
  const failure = byId('failure');
  failure.textContent = `The table of tensors can't be shown: ${error.message}`;
  failure.hidden = false;
});
