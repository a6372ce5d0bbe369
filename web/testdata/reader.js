import {createBrowserSandbox} from '@golem-forge/browser';
import {check, equal} from './check.js';

async function reopen() {
	for (let tries = 0; ; tries++) { // the tab that was closed may hold its lock for a moment
		try {
			return await createBrowserSandbox({workspaceId: 'killed', config: {zones: {a: {mode: 'rw'}}}});
		} catch (e) {
			if (e.code !== 'conflict' || tries > 60) throw e;
			console.log(e.message);
			await new Promise(resolve => setTimeout(resolve, 100));
		}
	}
}

export async function whole() {
	const s = await reopen();
	equal(await s.list('/a'), ['file', 'model']);
	for (const name of ['file', 'model']) {
		const text = await s.read(`/a/${name}`);
		check(/^(a+|b+|c+)$/.test(text) && text.length === 1 << 19, `${name} has ${text.length} characters of two writes`);
	}
	const verdict = await s.verify();
	check(verdict.ok && verdict.records > 0, JSON.stringify(verdict));
	await s.write('/a/file', 'x');
	await s.close();
	const left = [];
	const meta = await (await navigator.storage.getDirectory()).getDirectoryHandle('golem-unfinished');
	for await (const name of (await meta.getDirectoryHandle('killed')).keys()) left.push(name);
	equal(left, [], 'unfinished files');
}
