// Buttons that copy a fix, on a page from a disk too: where the clipboard is not to be had, the text is selected and copied from there.

function copyButton(text, code) {
  const button = make('button', { type: 'button', class: 'copy' }, 'copy');
  const say = (word) => (button.textContent = word);
  button.addEventListener('click', () => {
    getSelection().selectAllChildren(code);
    const fallback = () => say(document.execCommand('copy') ? 'copied' : 'selected');
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => say('copied'), fallback);
    else fallback();
  });
  return button;
}

// Each text of the page that is to be copied gets its button.
function addCopyButtons() {
  for (const code of document.querySelectorAll('[data-copy]')) code.after(copyButton(code.dataset.copy, code));
}
