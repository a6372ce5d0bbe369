// Keeps the open pages up to date, and measures which parts of a call were on the screen.
(() => {
  'use strict';
  const prefix = document.body.dataset.prefix;

  // One tab of the browser listens for changes and tells the others. Each tab that listens
  // by itself would take one of the few connections that a browser opens to one server.
  let stale = false;
  const refresh = () => {
    stale = document.hidden;
    if (!stale) htmx.trigger(document.body, 'desk');
  };
  document.addEventListener('visibilitychange', () => { if (stale) refresh(); });
  const channel = new BroadcastChannel('golem-desk');
  const hear = what => {
    document.getElementById('gone').hidden = what !== 'gone';
    if (what === 'changed') refresh();
  };
  const tell = what => { channel.postMessage(what); hear(what); };
  channel.onmessage = e => hear(e.data);
  const listen = () => new Promise(() => {
    let ended = false;
    const source = new EventSource(prefix + 'events');
    source.addEventListener('changed', () => tell('changed'));
    source.onerror = () => { ended = true; tell('gone'); };
    source.onopen = () => { if (ended) tell('changed'); ended = false; };
  });
  if (navigator.locks) navigator.locks.request('golem-desk', listen); else listen();

  // A part of a call counts as seen when each of its pieces was on the screen.
  const form = document.querySelector('form.answer');
  if (!form) return;
  const yes = form.querySelector('button.yes'), never = yes.disabled;
  let settled = false;
  const report = () => {
    const seen = [], open = [];
    const left = new Map(); // the first piece of each part that was not on the screen, or null
    for (const piece of document.querySelectorAll('[data-item]')) {
      const item = piece.dataset.item;
      if (!left.get(item)) left.set(item, 'seen' in piece.dataset ? null : piece);
    }
    for (const [item, piece] of left) (piece ? open : seen).push(item);
    const closed = document.querySelectorAll('.closed').length;
    form.elements.seen.value = seen.join(',');
    const files = new Set();
    for (const item of open) {
      const at = left.get(item);
      const file = at && at.closest('.file');
      files.add(file ? file.querySelector('h3').textContent : item);
    }
    for (const c of document.querySelectorAll('.closed')) files.add(c.closest('.file').querySelector('h3').textContent);
    const done = open.length === 0 && closed === 0;
    yes.disabled = never || !done || !settled;
    document.getElementById('viewed').textContent = done ? 'Everything that golem can show was on your screen.' :
      files.size + (files.size === 1 ? ' part was' : ' parts were') + ' not on your screen yet. Scroll through all of it to approve.';
    const list = document.createElement('ul');
    for (const text of files) list.appendChild(document.createElement('li')).textContent = text;
    document.getElementById('unviewed').replaceChildren(list);
    document.getElementById('unviewed-count').textContent = files.size + (files.size === 1 ? ' part' : ' parts') + ' not viewed';
  };
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; report(); }, 100);
  };
  const observer = new IntersectionObserver(entries => {
    for (const e of entries) {
      if (e.intersectionRatio < 0.95) continue;
      observer.unobserve(e.target);
      e.target.dataset.seen = '';
      later();
    }
  }, { threshold: [0.95, 1] });
  const watch = root => {
    for (const piece of root.querySelectorAll('[data-item]')) {
      observer.observe(piece);
    }
    later();
  };
  document.body.addEventListener('htmx:load', e => { if (e.detail.elt !== document.body) watch(e.detail.elt); });
  watch(document);
  report();
  setTimeout(() => { settled = true; form.dataset.ready = 'yes'; report(); }, 400);
})();
