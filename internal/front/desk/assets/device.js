// Signs what the user decides on a paired device. The key never leaves the browser.
(() => {
  'use strict';
  const open = () => new Promise((done, fail) => {
    const r = indexedDB.open('golem', 1);
    r.onupgradeneeded = () => r.result.createObjectStore('keys');
    r.onsuccess = () => done(r.result);
    r.onerror = () => fail(r.error);
  });
  const use = async (mode, what) => {
    const db = await open();
    return new Promise((done, fail) => {
      const t = db.transaction('keys', mode), r = what(t.objectStore('keys'));
      t.oncomplete = () => done(r.result);
      t.onerror = t.onabort = () => fail(t.error);
    });
  };
  const hex = bytes => [...new Uint8Array(bytes)].map(b => b.toString(16).padStart(2, '0')).join('');
  const text = s => new TextEncoder().encode(s);
  const find = () => use('readonly', keys => keys.get('device'));
  const sign = async (device, lines) => hex(await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, device.key, text(lines.join('\n'))));
  const say = (id, what) => { document.getElementById(id).textContent = what; };

  const pair = document.getElementById('pair');
  if (pair) {
    const code = location.hash.slice(1);
    history.replaceState(null, '', location.pathname);
    pair.disabled = !code;
    if (!code) say('pairing', 'Open the whole link that golem desk pair printed.');
    pair.addEventListener('click', async () => {
      pair.disabled = true;
      try {
        const made = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify']);
        const point = hex(await crypto.subtle.exportKey('raw', made.publicKey));
        const id = hex(await crypto.subtle.digest('SHA-256', text(point))).slice(0, 16);
        const answer = await fetch('pair', { method: 'POST', body: new URLSearchParams({ code, key: point }) });
        const said = await answer.text();
        if (!answer.ok) throw new Error(said);
        await use('readwrite', keys => keys.put({ id, key: made.privateKey }, 'device'));
        document.getElementById('word').textContent = said;
        say('pairing', 'Type this at the terminal where golem desk pair runs. Then open the desk.');
        document.getElementById('enter').hidden = false;
      } catch (e) { say('pairing', 'Not paired: ' + e.message); }
    });
  }

  const login = document.getElementById('login');
  if (login) (async () => {
    try {
      const device = await find();
      if (!device) throw new Error('this browser is not paired; run golem desk pair NAME on your machine');
      login.elements.device.value = device.id;
      login.elements.signature.value = await sign(device, ['golem login 1', location.origin, device.id, login.elements.challenge.value]);
      login.submit();
    } catch (e) { say('entering', 'Not logged in: ' + e.message); }
  })();

  const answer = document.querySelector('form.answer');
  if (answer) answer.addEventListener('submit', async event => {
    event.preventDefault();
    const e = answer.elements, chosen = event.submitter.value;
    try {
      const device = await find();
      e.expires.value = Math.floor(Date.now() / 1000) + 120;
      e.signature.value = await sign(device, ['golem decision 1', location.origin, device.id, new URL(answer.action).pathname, e.digest.value, e.nonce.value, e.expires.value, chosen, e.seen.value, e.reason.value]);
      e.chosen.value = chosen;
      e.chosen.name = 'answer'; // submit() does not send the button
      answer.submit();
    } catch (wrong) { say('viewed', 'Not decided: ' + wrong.message); }
  });
})();
