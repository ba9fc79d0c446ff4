// Elements from data. Texts only ever become text: names in a graph are whatever somebody wrote.

const SVG = 'http://www.w3.org/2000/svg';

// An element with attributes, then its children: elements or texts; null, undefined and false are left out.
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function makeSvg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

// 12,345 and `1 change`, `2 changes`, as the other forms of a diff write them.
function number(count) {
  return count.toLocaleString('en-US');
}

function plural(count, noun) {
  return `${number(count)} ${noun}${count === 1 ? '' : 's'}`;
}
