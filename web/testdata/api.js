import {createBrowserSandbox} from '@golem-forge/browser';
import {check, equal, fails, newID} from './check.js';

const open = (config, approve, workspaceId = newID()) => createBrowserSandbox({workspaceId, config, approve});

export async function files() {
	const s = await open();
	equal(await s.getAvailableZones(), ['cache', 'workspace']);
	await s.write('/workspace/dir/ä.txt', 'text');
	equal(await s.read('/workspace/dir/ä.txt'), 'text');
	await s.writeBinary('/workspace/b', new Uint8Array([0, 255, 10]));
	equal([...await s.readBinary('/workspace/b')], [0, 255, 10]);
	await s.writeBinary('/workspace/empty', new Uint8Array());
	equal((await s.readBinary('/workspace/empty')).length, 0);
	await fails(s.read('/workspace/b'), 'invalid');
	equal(await s.list('/workspace'), ['b', 'dir/', 'empty']);
	equal(await s.exists('/workspace/no'), false);
	await fails(s.read('/workspace/no'), 'not_found');
	const stat = await s.stat('/workspace/dir/ä.txt');
	check(stat.isFile && !stat.isDirectory && stat.size === 4, JSON.stringify(stat));
	check(Math.abs(stat.modified - Date.now()) < 60_000, String(stat.modified));
	equal(await s.resolve('/workspace/dir/../b'), '/workspace/b');
	equal(await s.isValidPath('/etc/passwd'), false);
	equal(await s.canWrite('/workspace/x'), true);
	equal(await s.getZoneAccess('workspace'), 'rw');
	equal(await s.getZoneAccess('other'), '');
	await s.delete('/workspace/b');
	equal(await s.exists('/workspace/b'), false);
	await s.close();
	await fails(s.read('/workspace/dir/ä.txt'), 'invalid_args');
}

export async function reopen() {
	const id = newID();
	const first = await open(undefined, undefined, id);
	await first.write('/workspace/a', '1');
	await first.tools().read_file.execute({path: '/workspace/a'});
	const {records} = await first.verify();
	await first.close();
	const second = await open(undefined, undefined, id);
	equal(await second.read('/workspace/a'), '1');
	const again = await second.verify();
	check(again.ok && again.records >= records && records > 0, JSON.stringify(again));
	await second.close();
}

export async function approvals() {
	const asked = [];
	let answer = () => ({approved: false, note: 'not today'});
	const s = await open({zones: {out: {mode: 'rw'}}}, request => { asked.push(request); return answer(request); });
	const {write_file, read_file, delete_file} = s.tools();
	const write = content => write_file.execute({path: '/out/a.txt', content});
	const declined = await fails(write('one\n'), 'declined');
	check(declined.message.includes('not today'), declined.message);
	equal(await s.exists('/out/a.txt'), false);
	equal(asked[0].changes.map(c => [c.op, c.path]), [['create', '/out/a.txt']]);
	check(asked[0].changes[0].diff.includes('+one'), asked[0].changes[0].diff);
	check(/^[0-9a-f]{64}$/.test(asked[0].digest), asked[0].digest);

	// Only an object with approved: true approves.
	for (const wrong of [true, 1, 'yes', null, undefined, [], {}, {approved: 'true'}, {approved: 1}, {approved: [true]}, {approved: true, extra: 1}, {ok: true}, () => true]) {
		answer = () => wrong;
		await fails(write('wrong\n'), 'declined');
	}
	answer = () => { throw new Error('a test of an approve function that fails'); };
	self.addEventListener('error', e => e.preventDefault(), {once: true});
	await fails(write('wrong\n'), 'declined');
	equal(await s.exists('/out/a.txt'), false);

	// Nothing in a request is invisible.
	answer = () => ({approved: false});
	asked.length = 0;
	await fails(write_file.execute({path: '/out/\x1b[31m.txt', content: '\u202e\x1b[31m\n'}), 'declined');
	const {args, ...shown} = asked[0];
	check(!/[\x1b\u202e]|\\u001b/.test(JSON.stringify(shown)), JSON.stringify(shown));

	// What the page does to its copy of the request changes nothing.
	answer = request => { request.args.content = 'other'; request.changes.length = 0; return {approved: true, by: 'Ada'}; };
	await write('one\n');
	equal(await s.read('/out/a.txt'), 'one\n');
	const text = await read_file.execute({path: '/out/a.txt'});
	check(text.includes('one'), text);

	// The file changes while the person looks.
	answer = async () => { await s.write('/out/a.txt', 'mine\n'); return {approved: true}; };
	let failed = false;
	await write('two\n').catch(() => { failed = true; });
	check(failed, 'the call went through');
	equal(await s.read('/out/a.txt'), 'mine\n');

	answer = () => ({approved: true});
	await delete_file.execute({path: '/out/a.txt'});
	equal(await s.exists('/out/a.txt'), false);
	const verdict = await s.verify();
	check(verdict.ok && verdict.records > 10, JSON.stringify(verdict));
	await s.close();

	const alone = await open({zones: {out: {mode: 'rw'}}});
	await fails(alone.tools().write_file.execute({path: '/out/a.txt', content: ''}), 'declined');
	await alone.close();
}

export async function rules() {
	const s = await open({
		zones: {docs: {mode: 'rw', suffixes: ['.md'], maxFileBytes: 10}, src: {mode: 'ro'}},
		rules: [{verb: 'write', target: '/docs', level: 'preApproved'}, {verb: 'write', target: '/docs/locked', level: 'blocked'}],
		tools: ['write_file'],
	});
	equal(Object.keys(s.tools()), ['write_file']);
	const write = (path, content) => s.tools().write_file.execute({path, content});
	await write('/docs/a.md', 'x');
	await fails(write('/docs/locked/a.md', 'x'), 'blocked');
	await fails(write('/docs/a.txt', 'x'), 'suffix');
	await fails(write('/docs/b.md', 'more than ten'), 'too_large');
	await fails(s.write('/docs/b.md', 'more than ten'), 'too_large');
	await fails(s.write('/src/a', 'x'), 'read_only');
	equal(await s.getZoneAccess('src'), 'ro');

	for (const limits of [{readonly: undefined}, {restrict: undefined}, {readonly: null}]) await fails(s.restrict(limits), 'invalid_args');
	const silent = await open({zones: {docs: {mode: 'rw'}}, tools: []});
	equal(Object.keys(silent.tools()), []);
	equal((await silent.getConfig()).tools, []);
	await silent.close();
	const child = await s.restrict({readonly: true});
	await fails(child.write('/docs/a.md', 'y'), 'read_only');
	await fails(child.tools().write_file.execute({path: '/docs/a.md', content: 'y'}), 'read_only');
	equal((await child.getConfig()).zones.docs.mode, 'ro');
	const one = await s.restrict({restrict: '/docs'});
	equal(await one.getZoneAccess('src'), '');
	const none = await s.restrict({restrict: '/nowhere'});
	equal(await none.getAvailableZones(), []);
	await fails(none.read('/docs/a.md'), 'not_found');
	await none.close();
	await s.close();
	equal(await child.read('/docs/a.md'), 'x');
	await child.close();
	await one.close();
}

const odd = [undefined, null, true, 0, -1, NaN, Infinity, '', ' ', 'x', '\0', '\ud800', '../..', '/', [], [1], {}, {a: 1}, () => 1, new Date(NaN), new Uint8Array(3)];

export async function wrongTypes() {
	for (const wrong of odd) {
		if (wrong !== undefined) {
			await open(wrong).then(async s => { await s.close(); throw new Error(`config ${String(wrong)} was accepted`); }, e => check(e.name === 'SandboxError', e.stack));
		}
		if (wrong !== 'x') await fails(open(undefined, undefined, wrong), wrong === undefined || typeof wrong === 'string' ? 'invalid' : 'invalid_args').catch(e => { if (!/invalid/.test(e.message)) throw e; });
		if (wrong !== undefined && typeof wrong !== 'function') await fails(open(undefined, wrong), 'invalid_args');
		for (const zone of [{mode: wrong}, {mode: 'ro', suffixes: wrong}, {mode: 'ro', maxFileBytes: wrong}, wrong]) {
			await open({zones: {a: zone}}).then(async s => { await s.close(); throw new Error(`zone ${JSON.stringify(zone)} was accepted`); }, e => check(e.name === 'SandboxError', e.stack));
		}
	}
}

export async function wrongArguments() {
	const s = await open({zones: {a: {mode: 'ro'}}});
	const settle = async promise => promise.then(v => ({value: v}), e => { check(e.name === 'SandboxError', e.stack); return {error: e}; });
	for (const wrong of odd) {
		for (const method of ['read', 'readBinary', 'delete', 'stat', 'resolve', 'list', 'exists']) await settle(s[method](wrong));
		for (const method of ['write', 'writeBinary']) {
			for (const path of [wrong, '/a/x']) check((await settle(s[method](path, wrong))).error, `${method} succeeded`);
		}
		check(!(await settle(s.canWrite(wrong))).value, `canWrite(${String(wrong)})`);
		const child = await settle(s.restrict(wrong));
		if (child.value) {
			equal(await child.value.canWrite('/a/x'), false);
			await child.value.close();
		}
		for (const {execute} of Object.values(s.tools())) await settle(execute(wrong));
	}
	const loop = {};
	loop.self = loop;
	await s.tools().read_file.execute(loop).then(() => { throw new Error('a loop'); }, () => {});
	equal(await s.list('/a'), []);
	check((await s.verify()).ok, 'the journal is damaged');
	await s.close();
}

export async function journal() {
	const s = await open({zones: {a: {mode: 'rw'}}}, () => ({approved: true, by: 'Ada'}));
	await s.tools().write_file.execute({path: '/a/x', content: 'a secret content'});
	await s.tools().delete_file.execute({path: '/a/x'});
	await fails(s.tools().read_file.execute({path: '/a/x'}), 'not_found');
	const {records, ok} = await s.verify();
	const text = new TextDecoder().decode(await s.exportJournal());
	await s.close();
	check(ok && records >= 5, `${records} records`);
	check(text.split('\n').length === records + 1 && !text.includes('a secret content'), text);
	await fetch('/keep?name=journal.jsonl', {method: 'POST', body: text});
}

export async function oneWorker() {
	const id = newID();
	const s = await open(undefined, undefined, id);
	await fails(open(undefined, undefined, id), 'conflict');
	await s.close();
	await (await open(undefined, undefined, id)).close();
}

// The figures of docs/browser.md, with room for a busy machine.
export async function speed() {
	const s = await open({zones: {a: {mode: 'rw'}}, rules: [{verb: 'write', target: '/a', level: 'preApproved'}]});
	const {write_file} = s.tools();
	const first = performance.now();
	await write_file.execute({path: '/a/first', content: 'x'});
	const firstCall = performance.now() - first;
	const content = 'x'.repeat(1024);
	const begin = performance.now();
	for (let i = 0; i < 1000; i++) await s.write(`/a/${i}`, content);
	const thousand = performance.now() - begin;
	await s.close();
	console.log(`first call ${firstCall.toFixed()} ms, 1,000 files of 1 KiB in ${thousand.toFixed()} ms`);
	check(firstCall < 3_000 && thousand < 40_000, `first call ${firstCall} ms, 1,000 files ${thousand} ms`);
}
