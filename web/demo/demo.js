// The demo of @golem-forge/browser. It shows every text from files and models with textContent.
import {createBrowserSandbox} from '../index.js';
import {real, runWorker, scripted} from './worker-loop.js';

const $ = selector => document.querySelector(selector);
const config = {zones: {work: {mode: 'rw'}, drafts: {mode: 'rw'}}, rules: [{verb: 'write', target: '/drafts', level: 'preApproved'}]};
let sandbox = null;
let staged = null; // a commit that was reviewed, with its branch

function say(text, bad = false) {
	$('#status').textContent = text;
	$('#status').className = bad ? 'bad' : '';
}

/** attempt runs an action of the user, and says what went wrong. */
const attempt = action => async event => {
	event?.preventDefault();
	try {
		await action(event);
	} catch (e) {
		say(e.message, true);
	}
};

function add(parent, tag, text, className = '') {
	const element = document.createElement(tag);
	element.textContent = text;
	element.className = className;
	parent.append(element);
	return element;
}

/** showText shows a text, with colours if it is a diff. */
function showText(parent, text) {
	const pre = add(parent, 'pre', '');
	const isDiff = /^--- .*\n\+\+\+ /m.test(text);
	for (const line of text.replace(/\n$/, '').split('\n')) {
		const kind = line.startsWith('@@') ? 'hunk' : line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : '';
		add(pre, 'span', line, isDiff ? kind : '');
	}
}

// One question at a time.
let asking = Promise.resolve();
const approve = request => asking = asking.then(() => ask(request), () => ask(request));

function ask(request) {
	const dialog = $('#ask');
	dialog.querySelector('h2').textContent = `The worker asks: ${request.tool}`;
	dialog.querySelector('.risks').replaceChildren();
	dialog.querySelector('.effects').replaceChildren();
	dialog.querySelector('.items').replaceChildren();
	for (const risk of request.risks) add(dialog.querySelector('.risks'), 'li', risk);
	for (const effect of request.effects) add(dialog.querySelector('.effects'), 'li', effect);
	for (const item of request.items) {
		add(dialog.querySelector('.items'), 'h3', item.name);
		showText(dialog.querySelector('.items'), item.text);
	}
	const form = dialog.querySelector('form');
	form.reset();
	form.digest.parentElement.hidden = request.items.every(item => item.complete);
	form.digest.parentElement.querySelector('code').textContent = request.digest;
	dialog.returnValue = '';
	dialog.showModal();
	return new Promise(resolve => dialog.addEventListener('close', () => {
		resolve({approved: dialog.returnValue === 'approve', by: 'the user of the demo', note: form.note.value, digest: form.digest.value});
	}, {once: true}));
}

async function filesIn(dir, found = []) {
	for (const name of await sandbox.list(dir)) {
		if (name.endsWith('/')) await filesIn(`${dir}/${name.slice(0, -1)}`, found);
		else found.push(`${dir}/${name}`);
	}
	return found;
}

async function refresh() {
	const list = $('#files');
	list.replaceChildren();
	for (const zone of await sandbox.getAvailableZones()) {
		for (const path of await filesIn(`/${zone}`)) {
			add(add(list, 'li', ''), 'button', path).onclick = attempt(async () => {
				$('#shown').textContent = path;
				$('#content').textContent = await sandbox.read(path);
			});
		}
	}
}

async function open(workspaceId) {
	await sandbox?.close();
	sandbox = null;
	$('#opened').hidden = true;
	sandbox = await createBrowserSandbox({workspaceId, config, approve});
	location.hash = workspaceId;
	await refresh();
	$('#opened').hidden = false;
	say(`The workspace ${workspaceId} is open.`);
}

$('#open').onsubmit = attempt(event => open(event.target.workspace.value));

$('#run').model.onchange = event => { $('#real').hidden = event.target.value === 'script'; };

$('#run').onsubmit = attempt(async event => {
	const form = event.target, log = $('#log');
	const button = form.querySelector('button');
	log.replaceChildren();
	button.disabled = true;
	say('The worker runs.');
	try {
		const value = name => form.elements[name].value.trim();
		const model = value('model') === 'script' ? scripted() : real({endpoint: value('endpoint'), name: value('name'), key: value('key')});
		await runWorker({model, tools: sandbox.tools(), prompt: value('prompt'), log: text => add(log, 'li', text)});
		say('The worker has ended.');
	} finally {
		button.disabled = false;
		await refresh();
	}
});

$('#github').onsubmit = attempt(async event => {
	const form = event.target, action = event.submitter.value;
	const value = name => form.elements[name].value.trim();
	const paths = value('paths').split('\n').map(path => path.trim()).filter(Boolean);
	$('#review').replaceChildren();
	$('#push').hidden = true;
	staged = null;
	const github = await sandbox.github({repository: value('repository'), branch: value('branch'), token: value('token'), api: value('api')});
	if (action === 'pull') {
		const {files} = await github.pull({paths, dir: '/work'});
		await refresh();
		say(`Pulled ${files.length} files.`);
		return;
	}
	const commit = await github.stage({paths, dir: '/work', message: value('message')});
	for (const change of commit.changes) {
		add($('#review'), 'h3', `${change.op} ${change.path}`);
		for (const risk of change.risks) add($('#review'), 'p', `Look at this: ${risk}`);
		showText($('#review'), change.diff ?? change.omitted ?? '');
	}
	add($('#review'), 'p', `${commit.message} · tree ${commit.digest}`);
	staged = {github, commit};
	$('#push').hidden = false;
	say('Nothing was sent yet. Look at the changes, then push them.');
});

$('#push').onclick = attempt(async () => {
	const {github, commit} = staged;
	$('#push').hidden = true;
	const made = await github.push(commit, {by: 'the user of the demo'});
	$('#review').replaceChildren();
	say(`Pushed commit ${made.commit}.`);
});

$('#verify').onclick = attempt(async () => {
	const {ok, records, problem} = await sandbox.verify();
	$('#verdict').textContent = ok ? `${records} records, unchanged` : `not whole: ${problem}`;
});

$('#export').onclick = attempt(async () => {
	const url = URL.createObjectURL(new Blob([await sandbox.exportJournal()], {type: 'application/jsonl'}));
	Object.assign(document.createElement('a'), {href: url, download: 'journal.jsonl'}).click();
	URL.revokeObjectURL(url);
});

// After a reload, everything is there again.
const before = decodeURIComponent(location.hash.slice(1));
if (before !== '') {
	$('#open').workspace.value = before;
	await attempt(() => open(before))();
}
