// The data of the page: JSON, packed by gzip, as base64 in an element that the browser doesn't run.

async function decoded(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(unpacked).text());
}
