'use strict';
// "Try it": sends a request of the reader's to the server that the page came from, and shows the answer. The key or
// token stays in its field: it is sent with the request and kept nowhere.
const make = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
const hex = (bytes) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
const answerLimit = 65536, answerTime = 5000;

document.getElementById('access').addEventListener('submit', (event) => event.preventDefault());
for (const article of document.querySelectorAll('article[data-path]')) {
  const details = article.querySelector('details');
  details.addEventListener('toggle', () => details.append(tryForm(article)), {once: true});
}

function tryForm(article) {
  const {method, path} = article.dataset;
  const inputs = [];
  const form = make('form');
  const ask = (label, input) => form.append(make('label', {}, label, input));
  for (const row of article.querySelectorAll('tr[data-in]')) {
    const name = row.dataset.name;
    const input = make('input', {autocomplete: 'off', spellcheck: false, required: row.dataset.in === 'path'});
    if (name === 'Idempotency-Key') input.value = hex(crypto.getRandomValues(new Uint8Array(16)));
    inputs.push({where: row.dataset.in, name, input});
    ask(name, input);
  }
  const example = article.querySelector('[data-body] + table + pre, [data-body] + pre')?.textContent ?? '';
  const body = article.querySelector('[data-body]') && make('textarea', {rows: 6, spellcheck: false, value: example});
  if (body) ask('body', body);
  const output = make('pre', {hidden: true, tabIndex: 0});
  output.setAttribute('aria-live', 'polite');
  form.append(make('button', {}, 'Send ' + method), output);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    output.hidden = false;
    output.textContent = '…';
    output.textContent = await send(method, path, inputs, body?.value);
  });
  return form;
}

async function send(method, path, inputs, body) {
  const headers = {}, query = new URLSearchParams();
  for (const {where, name, input} of inputs) {
    const value = input.value.trim();
    if (where === 'path') path = path.replace('{' + name + '}', encodeURIComponent(value));
    else if (value && where === 'query') query.set(name, value);
    else if (value) headers[name] = value;
  }
  const key = document.getElementById('key').value.trim();
  if (key) headers.Authorization = 'Bearer ' + key;
  const url = new URL(path.slice(1) + (query.size ? '?' + query : ''), new URL('.', location.href));
  try {
    const began = performance.now();
    const answer = await fetch(url, {method, headers, body: body || undefined, credentials: 'omit'});
    const head = `${answer.status} ${answer.statusText}  ${Math.round(performance.now() - began)} ms\n`;
    const names = ['content-type', 'location', 'etag', 'retry-after', 'idempotent-replayed'];
    const lines = names.filter((name) => answer.headers.has(name)).map((name) => `${name}: ${answer.headers.get(name)}`);
    return head + [...lines, '', pretty(await read(answer))].join('\n');
  } catch (error) {
    return 'There was no answer: ' + error.message;
  }
}

// read reads an answer; of a stream what comes in five seconds.
async function read(answer) {
  const reader = answer.body?.getReader();
  if (!reader) return '';
  const end = setTimeout(() => reader.cancel(), answerTime), decoder = new TextDecoder();
  let text = '';
  for (;;) {
    const {value, done} = await reader.read();
    if (done) break;
    text += decoder.decode(value, {stream: true});
    if (text.length > answerLimit) {
      await reader.cancel();
      text = text.slice(0, answerLimit) + '\n…';
      break;
    }
  }
  clearTimeout(end);
  return text;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
