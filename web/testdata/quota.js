import {createBrowserSandbox} from '@golem-forge/browser';
import {check, equal, fails, newID} from './check.js';

// The browser gives this origin little space.
export async function full() {
	const s = await createBrowserSandbox({workspaceId: newID(), config: {zones: {a: {mode: 'rw'}}}});
	await s.write('/a/kept', 'old');
	const content = 'x'.repeat(1 << 20);
	let error = null, count = 0;
	for (; count < 100 && !error; count++) await s.write(`/a/${count}`, content).catch(e => { error = e; });
	check(error, `${count} MiB fit`);
	equal(error.code, 'limit', error.message);
	await fails(s.write('/a/kept', content), 'limit');
	equal(await s.read('/a/kept'), 'old');
	for (const name of await s.list('/a')) {
		if (name !== 'kept') equal((await s.read(`/a/${name}`)).length, 1 << 20, name);
	}
	for (const name of await s.list('/a')) if (name !== 'kept') await s.delete(`/a/${name}`);
	await s.write('/a/again', content);
	check((await s.verify()).ok, 'the journal is damaged');
	await s.close();
}
