import {createBrowserSandbox} from '@golem-forge/browser';

// Writes until the tab is closed or reloaded.
export async function forever() {
	const s = await createBrowserSandbox({workspaceId: 'killed', config: {zones: {a: {mode: 'rw'}}, rules: [{verb: 'write', target: '/a', level: 'preApproved'}]}});
	const {write_file} = s.tools();
	for (let i = 0; ; i++) {
		const content = 'abc'[i % 3].repeat(1 << 19);
		try {
			await s.write('/a/file', content);
			await write_file.execute({path: '/a/model', content});
		} catch {
			await new Promise(() => {}); // the page goes away
		}
		globalThis.written = i;
	}
}
