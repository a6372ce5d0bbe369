import {createBrowserSandbox} from '@golem-forge/browser';
import {check, equal, fails, newID} from './check.js';

const api = await (await fetch('/keep?name=github')).text();
const token = 'ghp_0123456789abcdefTESTTOKEN';
const fault = kind => fetch(`${api}/fault?kind=${kind}`);

export async function all() {
	const s = await createBrowserSandbox({workspaceId: newID(), config: {zones: {repo: {mode: 'rw'}}}});
	const open = more => s.github({repository: 'ada/notes', branch: 'main', token, api, ...more});
	const repo = await open();

	// Pull.
	const pulled = await repo.pull({paths: ['docs', 'tools/run.sh'], dir: '/repo'});
	equal(pulled.files.toSorted(), ['docs/a.md', 'docs/deep/b.md', 'tools/run.sh']);
	equal(await s.read('/repo/docs/a.md'), 'one\n');
	await repo.pull({paths: ['docs'], dir: '/repo'});
	await s.write('/repo/docs/a.md', 'two\n');
	await fails(repo.pull({paths: ['docs'], dir: '/repo'}), 'exists');
	equal(await s.read('/repo/docs/a.md'), 'two\n');
	await fails(repo.pull({paths: ['link'], dir: '/repo'}), 'not_regular');
	await fails(repo.pull({paths: ['no'], dir: '/repo'}), 'not_found');
	await fails(repo.pull({paths: ['README.md'], dir: '/outside'}), 'not_found');
	await fault('content');
	await fails(repo.pull({paths: ['README.md'], dir: '/repo'}), 'conflict');
	equal(await s.exists('/repo/README.md'), false);
	await fault('');

	// Stage.
	await s.write('/repo/docs/new/ä.md', 'new\u202e\n');
	await s.delete('/repo/docs/deep/b.md');
	const paths = ['docs/a.md', 'docs/new/ä.md', 'docs/deep/b.md', 'tools/run.sh'];
	const staged = await repo.stage({paths, dir: '/repo', message: 'change the notes'});
	equal(staged.changes.map(c => [c.op, c.path]), [['update', 'docs/a.md'], ['delete', 'docs/deep/b.md'], ['create', 'docs/new/ä.md']]);
	check(staged.changes[0].diff.includes('-one\n+two\n'), staged.changes[0].diff);
	check(!staged.changes[2].diff.includes('\u202e'), 'an invisible character is in the diff');
	check(/^[0-9a-f]{40}$/.test(staged.digest), staged.digest);
	await fails(repo.stage({paths: ['tools/run.sh'], dir: '/repo', message: 'nothing'}), 'invalid');
	await fails(repo.stage({paths: ['nowhere'], dir: '/repo', message: 'x'}), 'not_found');

	// Push only what was shown.
	for (const wrong of [undefined, null, {}, {...staged, digest: '0'.repeat(40)}, {...staged, id: 'x'}, {digest: staged.digest}]) {
		await fails(repo.push(wrong), 'invalid_args');
	}
	await fault('tree');
	await fails(repo.push(staged), 'conflict');
	await fault('rate');
	const limit = await fails(repo.push(staged), 'limit');
	check(limit.message.includes('08:00 UTC'), limit.message);
	await fault('409');
	const conflict = await fails(repo.push(staged), 'conflict');
	check(!conflict.message.includes('\x1b'), conflict.message);
	await fault('move');
	await fails(repo.push(staged), 'conflict');
	const again = await repo.stage({paths, dir: '/repo', message: 'change the notes'});
	await fails(repo.push(staged), 'invalid_args');
	await fetch('/keep?name=digest', {method: 'POST', body: again.digest});
	const {commit} = await repo.push(again, {by: 'Ada'});
	check(/^[0-9a-f]{40}$/.test(commit), commit);
	await fails(repo.push(again), 'invalid_args');

	// Wrong tokens, names and types.
	await fails((await open({token: 'wrong'})).pull({paths: ['docs'], dir: '/repo'}), 'unauthorized');
	await fails((await open({branch: 'other'})).pull({paths: ['docs'], dir: '/repo'}), 'not_found');
	await fails((await open({api: 'http://127.0.0.1:1'})).pull({paths: ['docs'], dir: '/repo'}), 'unreachable');
	for (const wrong of [{api: 'http://example.com'}, {api: 'ftp://x'}, {api: 'https://u:p@x'}, {api: 1}, {repository: 'x'}, {repository: 'a/..'}, {repository: 'a/b?c'}, {branch: '../x'}, {branch: ''}, {branch: 'a..b'}, {token: 'a b'}, {token: null}, {extra: 1}]) {
		await fails(open(wrong), 'invalid_args');
	}
	for (const wrong of [[], ['../x'], ['/x'], ['.git/config'], ['a/.GIT/x'], ['a//b'], ['a\\b'], [1], 'docs', null]) {
		await fails(repo.pull({paths: wrong, dir: '/repo'}), 'invalid_args');
		await fails(repo.stage({paths: wrong, dir: '/repo', message: 'x'}), 'invalid_args');
	}

	// The journal has each push, and nothing of the browser has the token.
	const journal = new TextDecoder().decode(await s.exportJournal());
	check(journal.includes('push ada/notes main') && journal.includes(again.digest) && journal.includes('"by":"Ada"'), journal);
	check((await s.verify()).ok, 'the journal is damaged');
	await s.close();
	await fails(repo.pull({paths: ['docs'], dir: '/repo'}), 'invalid_args');
	const files = await everything(await navigator.storage.getDirectory());
	check(files.length > 5, `${files.length} files`);
	for (const [name, text] of files) check(!text.includes(token), `the token is in ${name}`);
	check(localStorage.length + sessionStorage.length === 0 && document.cookie === '', 'something is stored outside OPFS');
}

/** everything returns all files below a directory of OPFS. */
async function everything(dir, files = []) {
	for await (const [name, handle] of dir.entries()) {
		if (handle.kind === 'directory') await everything(handle, files);
		else files.push([name, await (await handle.getFile()).text()]);
	}
	return files;
}
