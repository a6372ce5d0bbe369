// Keeps the open pages up to date, and measures which parts of a page were on the screen.
(() => {
  'use strict';
  const prefix = document.body.dataset.prefix;

  // One tab of the browser listens for changes and tells the others. Each tab that listens
  // by itself would take one of the few connections that a browser opens to one server.
  let stale = false;
  const refresh = what => {
    stale = document.hidden && (stale || what);
    if (!document.hidden) htmx.trigger(document.body, what === 'changed' ? 'desk' : 'activity');
  };
  document.addEventListener('visibilitychange', () => { if (stale) refresh('changed'); });
  const channel = new BroadcastChannel('golem-desk');
  const hear = what => {
    document.getElementById('gone').hidden = what !== 'gone';
    if (what !== 'gone') refresh(what);
  };
  const tell = what => { channel.postMessage(what); hear(what); };
  channel.onmessage = e => hear(e.data);
  const listen = () => new Promise(() => {
    let ended = false;
    const source = new EventSource(prefix + 'events');
    for (const what of ['changed', 'activity']) source.addEventListener(what, () => tell(what));
    source.onerror = () => { ended = true; tell('gone'); };
    source.onopen = () => { if (ended) tell('changed'); ended = false; };
  });
  if (navigator.locks) navigator.locks.request('golem-desk', listen); else listen();

  // What runs is read again and again, while somebody looks.
  const ticking = document.querySelectorAll('[data-tick]');
  if (ticking.length) setInterval(() => { if (!document.hidden) for (const e of ticking) htmx.trigger(e, 'tick'); }, 2000);

  // Comments stand below their lines, too. A click on the number of a line writes one, and a click
  // with Shift on another number extends it.
  const comments = () => document.getElementById('comments');
  const send = fields => fetch(comments().dataset.at, { method: 'POST', body: new URLSearchParams({ nonce: comments().dataset.nonce, ...fields }) }).then(async answer => {
    const said = await answer.text();
    if (!answer.ok) throw new Error(said);
    htmx.swap(comments(), said, { swapStyle: 'outerHTML' });
  });
  // Returns the pieces of the lines of a file on one side.
  const linesOf = (file, old, from, to) => {
    const list = [];
    let inside = false;
    for (const line of file.querySelectorAll('.numbered .line')) {
      const n = Number(line.querySelector(old ? '.num.old' : '.num:not(.old)').textContent);
      if (!line.classList.contains('rest')) inside = n >= from && n <= to;
      if (inside) list.push(line);
    }
    return list;
  };
  const place = () => {
    for (const copy of document.querySelectorAll('.placed')) copy.remove();
    for (const comment of comments().querySelectorAll('.comment')) {
      const file = document.getElementById('file-' + comment.dataset.file);
      if (!file) continue;
      const n = Number(comment.dataset.line), copy = comment.cloneNode(true);
      copy.className = copy.className.replace('elsewhere', '') + ' placed';
      comment.classList.add('elsewhere');
      let after = (n ? linesOf(file, 'old' in comment.dataset, n, n).pop() : null) || file.querySelector('h4');
      while (after.nextElementSibling?.classList.contains('placed')) after = after.nextElementSibling;
      after.after(copy);
    }
  };
  let writing = null;
  const mark = () => {
    for (const line of document.querySelectorAll('.line.chosen')) line.classList.remove('chosen');
    if (!writing || !writing.file) return;
    const from = Number(writing.box.querySelector('.from').value), to = Number(writing.box.querySelector('.to').value);
    const lines = from ? linesOf(writing.file, writing.old, from, Math.max(from, to)) : [];
    for (const line of lines) line.classList.add('chosen');
    return lines;
  };
  const stopWriting = () => { if (writing) writing.box.remove(); writing = null; mark(); };
  const write = (file, old, from, to, below) => {
    stopWriting();
    const box = comments().querySelector('template').content.firstElementChild.cloneNode(true);
    writing = { box, file, old };
    box.querySelector('.place').textContent = file ? file.querySelector('.name').title + (old ? ', before the change' : '') : 'All changes';
    box.querySelector('.range').hidden = !from;
    box.querySelector('.from').value = from || '';
    box.querySelector('.to').value = to || '';
    const lines = mark() || [];
    (lines.length ? lines[lines.length - 1] : below).after(box);
    box.querySelector('textarea').focus();
  };
  const save = () => {
    const { box, file, old } = writing, problem = box.querySelector('.problem'), text = box.querySelector('textarea').value;
    const fields = { text, file: file ? file.id.slice(5) : '', line: box.querySelector('.from').value || 0, last: box.querySelector('.to').value || 0 };
    if (old) fields.old = 'yes';
    box.querySelector('.save').disabled = true;
    send(fields).then(() => { if (writing && writing.box === box) stopWriting(); }, e => {
      problem.textContent = e.message;
      problem.hidden = false;
      box.querySelector('.save').disabled = false;
    });
  };
  if (comments()) {
    document.addEventListener('click', e => {
      const number = e.target.closest('.num'), opener = e.target.closest('[data-comment]'), remove = e.target.closest('[data-remove]');
      const file = e.target.closest('.file');
      if (number && file && number.textContent) {
        const n = Number(number.textContent), old = number.classList.contains('old');
        if (e.shiftKey && writing && writing.file === file && writing.old === old) {
          const from = writing.box.querySelector('.from'), to = writing.box.querySelector('.to');
          to.value = Math.max(n, from.value);
          from.value = Math.min(n, from.value);
          mark();
        } else write(file, old, n, n, number.parentElement);
      } else if (opener) {
        const piece = opener.closest('.piece'), lines = piece ? [...piece.querySelectorAll('.line')] : [];
        const line = lines.find(l => /added|removed/.test(l.className)) || lines.find(l => l.querySelector('.num')?.textContent);
        const old = !!line && line.classList.contains('removed');
        const n = line && line.querySelector('.num') ? Number(line.querySelector(old ? '.num.old' : '.num:not(.old)').textContent) : 0;
        write(file, old, n, n, piece ? piece.firstElementChild : opener);
      } else if (remove) {
        remove.disabled = true;
        send({ remove: remove.dataset.remove }).catch(wrong => { remove.disabled = false; remove.textContent = wrong.message; });
      } else if (writing && e.target.closest('.save')) save();
      else if (writing && e.target.closest('.cancel')) stopWriting();
    });
    document.addEventListener('input', e => { if (writing && e.target.closest('.range')) mark(); });
    document.addEventListener('keydown', e => {
      if (!writing || !writing.box.contains(e.target)) return;
      if (e.key === 'Escape') stopWriting();
      if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) save();
    });
    document.body.addEventListener('htmx:load', place);
    place();
  }

  // A file that somebody marked as viewed folds. What was on the screen stays seen.
  const tree = document.querySelector('.tree');
  const fileOf = index => document.getElementById('file-' + index);
  const goTo = file => {
    for (const other of document.querySelectorAll('.file.current')) other.classList.remove('current');
    if (!file) return;
    file.classList.add('current');
    file.scrollIntoView({ block: 'start' });
    file.focus({ preventScroll: true });
  };
  // Loads the parts of a long list until it has a file, and goes there.
  const goToIndex = index => {
    const more = document.querySelector('.more');
    if (fileOf(index) || !more) return goTo(fileOf(index));
    document.body.addEventListener('htmx:load', () => goToIndex(index), { once: true });
    htmx.trigger(more, 'revealed');
  };
  const fold = (file, folded) => { for (const part of file.querySelectorAll('.pieces')) part.hidden = folded; };
  if (tree) {
    if (matchMedia('(max-width: 64rem)').matches) tree.open = false;
    const count = document.getElementById('viewed-count');
    const setViewed = box => {
      const index = box.dataset.viewed, file = fileOf(index), link = tree.querySelector('a[href="#file-' + index + '"]');
      fetch(comments().dataset.at.replace(/comments$/, 'viewed'), { method: 'POST', body: new URLSearchParams({ nonce: comments().dataset.nonce, file: index, viewed: box.checked ? 'yes' : '' }) }).then(async answer => {
        if (!answer.ok) throw new Error(await answer.text());
        fold(file, box.checked);
        if (link) link.classList.toggle('done', box.checked);
        count.dataset.viewed = Number(count.dataset.viewed) + (box.checked ? 1 : -1);
        count.textContent = count.dataset.viewed + ' of ' + count.dataset.files + (count.dataset.files === '1' ? ' file' : ' files') + ' viewed';
      }).catch(wrong => {
        box.checked = !box.checked;
        box.parentElement.title = wrong.message;
        box.parentElement.lastChild.textContent = ' ' + wrong.message;
      });
    };
    document.addEventListener('change', e => { if (e.target.dataset.viewed !== undefined) setViewed(e.target); });
    document.body.addEventListener('htmx:load', e => {
      const file = e.detail.elt.closest && e.detail.elt.closest('.file'), box = file && file.querySelector('[data-viewed]');
      if (box) box.disabled = false;
    });
    tree.addEventListener('click', e => {
      const link = e.target.closest('a');
      if (!link) return;
      e.preventDefault();
      if (matchMedia('(max-width: 64rem)').matches) tree.open = false;
      goToIndex(link.hash.slice(6));
    });
    tree.querySelector('.tree-filter').addEventListener('input', e => {
      const want = e.target.value.toLowerCase();
      for (const row of tree.querySelectorAll('li')) row.hidden = !!want && !(row.dataset.name || '').toLowerCase().includes(want);
    });
    document.addEventListener('keydown', e => {
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName) && e.target.type !== 'checkbox') return;
      const files = [...document.querySelectorAll('.file')], current = document.querySelector('.file.current') || e.target.closest('.file');
      const step = (list, by) => {
        const edge = 8, heights = list.map(x => x.getBoundingClientRect().top);
        return by > 0 ? list[heights.findIndex(top => top > edge)] : list[heights.findLastIndex(top => top < -edge)];
      };
      const at = files.indexOf(current);
      if (e.key === 'j') goTo(files[Math.min(at + 1, files.length - 1)]);
      else if (e.key === 'k') goTo(files[Math.max(at - 1, 0)]);
      else if (e.key === 'n' || e.key === 'p') step([...document.querySelectorAll('.piece')].filter(x => x.offsetParent), e.key === 'n' ? 1 : -1)?.scrollIntoView({ block: 'start' });
      else if (e.key === 'x' && current) current.querySelector('[data-file]')?.click();
      else if (e.key === 'v' && current) current.querySelector('[data-viewed]')?.click();
      else if (e.key === 'c' && current) current.querySelector('[data-comment]')?.click();
      else if (e.key === '/') { tree.open = true; tree.querySelector('.tree-filter').focus(); }
      else return;
      e.preventDefault();
    });
  }

  // A part of a page counts as seen when each of its pieces was on the screen.
  const answer = document.querySelector('form.answer'), pick = document.querySelector('form.pick'), review = document.querySelector('form.review');
  const form = answer || pick || review;
  if (!form) return;
  const left = new Map(), names = new Map();
  const before = new Set((form.dataset.before || '').split(','));
  const isSeen = item => before.has(item) || left.get(item) === 0;
  const count = (n, noun) => n + ' ' + noun + (n === 1 ? '' : 's');
  let settled = false;

  // The page of a call: the button works after everything was on the screen.
  const reportAnswer = () => {
    const buttons = answer.querySelectorAll('button.yes');
    for (const yes of buttons) if (yes.dataset.never === undefined) yes.dataset.never = yes.disabled;
    const seen = [], open = [];
    for (const item of left.keys()) (isSeen(item) ? seen : open).push(item);
    answer.elements.seen.value = seen.join(',');
    const files = new Set();
    for (const item of open) {
      const at = names.get(item);
      const file = at && at.closest('.file');
      files.add(file ? file.querySelector('h3').textContent : item);
    }
    const closed = [...document.querySelectorAll('.closed')].filter(c => !before.has(c.dataset.content));
    for (const c of closed) files.add(c.closest('.file').querySelector('h3').textContent);
    answer.elements.confirmed.value = open.concat(closed.map(c => c.dataset.content)).join(',');
    const done = open.length === 0 && closed.length === 0;
    for (const yes of buttons) yes.disabled = yes.dataset.never === 'true' || !done || !settled;
    document.getElementById('viewed').textContent = done ? 'Everything that golem can show was on your screen.' :
      count(files.size, 'part') + (files.size === 1 ? ' was' : ' were') + ' not on your screen yet. Scroll through all of it to approve.';
    const list = document.createElement('ul');
    for (const text of files) list.appendChild(document.createElement('li')).textContent = text;
    document.getElementById('unviewed').replaceChildren(list);
    document.getElementById('unviewed-count').textContent = count(files.size, 'part') + ' not viewed';
  };

  // The page of a commit: what was on the screen counts on the next page.
  const reportSeen = () => { form.elements.seen.value = [...left.keys()].filter(isSeen).join(','); };

  // The page of a session: the ticks say what to apply.
  const reportPick = () => {
    reportSeen();
    let files = 0, hunks = 0;
    for (const box of pick.querySelectorAll('input[name=pick]:checked')) box.dataset.of ? hunks++ : files++;
    for (const box of pick.querySelectorAll('input[data-of]:checked')) if (pick.querySelector('input[data-file="' + box.dataset.of + '"]').checked) hunks--;
    const all = [];
    if (files) all.push(count(files, 'file'));
    if (hunks) all.push(count(hunks, 'part') + (files ? ' of other files' : ''));
    for (const button of pick.querySelectorAll('.bar button')) button.disabled = !!unloaded();
    if (unloaded()) all.push('golem loads the rest of the list');
    document.getElementById('picked').textContent = all.length ? 'Chosen: ' + all.join(' and ') + '.' : 'Tick what you want to apply.';
  };
  // A long list is loaded in parts. All files are ticked only when all parts are here.
  const unloaded = () => pick && document.getElementById('pick-all')?.checked && pick.querySelector('.more');
  const loadAll = () => { if (unloaded()) htmx.trigger(unloaded(), 'revealed'); };
  if (pick) {
    const tickParts = box => {
      for (const part of pick.querySelectorAll('input[data-of="' + box.dataset.file + '"]')) part.checked = box.checked;
      box.indeterminate = false;
    };
    pick.addEventListener('change', e => {
      const box = e.target;
      loadAll();
      if (box.id === 'pick-all') for (const file of pick.querySelectorAll('input[data-file]')) { file.checked = box.checked; tickParts(file); }
      if (box.dataset.file) tickParts(box);
      if (box.dataset.of) {
        const parts = [...pick.querySelectorAll('input[data-of="' + box.dataset.of + '"]')], file = pick.querySelector('input[data-file="' + box.dataset.of + '"]');
        file.checked = parts.every(p => p.checked);
        file.indeterminate = !file.checked && parts.some(p => p.checked);
      }
      reportPick();
    });
  }

  const report = answer ? reportAnswer : pick ? reportPick : reportSeen;
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; report(); });
  };
  // The bar with the buttons covers the end of the screen: what is below it is not seen.
  const bar = document.querySelector('.bar'), open = new Set();
  let observer;
  const observe = () => {
    if (observer) observer.disconnect();
    observer = new IntersectionObserver(entries => {
      for (const e of entries) {
        if (e.intersectionRatio < 0.95 || !open.delete(e.target)) continue;
        observer.unobserve(e.target);
        const n = left.get(e.target.dataset.item) - 1;
        left.set(e.target.dataset.item, n);
        if (n === 0) later();
      }
    }, { threshold: [0.95, 1], rootMargin: '0px 0px -' + (bar ? bar.offsetHeight : 0) + 'px 0px' });
    for (const piece of open) observer.observe(piece);
  };
  observe();
  if (bar) new ResizeObserver(observe).observe(bar);
  const watch = root => {
    for (const piece of root.querySelectorAll('[data-item]')) {
      const item = piece.dataset.item;
      left.set(item, (left.get(item) || 0) + 1);
      names.set(item, piece);
      open.add(piece);
      observer.observe(piece);
    }
    for (const file of pick ? root.querySelectorAll('input[data-file]') : []) if (document.getElementById('pick-all').checked) file.checked = true;
    loadAll();
    for (const part of pick ? root.querySelectorAll('input[data-of]') : []) if (pick.querySelector('input[data-file="' + part.dataset.of + '"]').checked) part.checked = true;
    later();
  };
  document.body.addEventListener('htmx:load', e => { if (e.detail.elt !== document.body) watch(e.detail.elt); });
  watch(document);
  report();
  setTimeout(() => { settled = true; form.dataset.ready = 'yes'; report(); }, 400);
})();
