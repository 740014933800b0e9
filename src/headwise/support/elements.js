"use strict";
// What the scripts of all pages share: finding and making elements.
const $ = (id) => document.getElementById(id);
const SVG = document.querySelector("svg").namespaceURI;

// An element with attributes and children; text is never parsed as markup.
function make(name, attributes = {}, ...children) {
  const svg = ["svg", "path", "rect", "line", "text", "g"].includes(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
