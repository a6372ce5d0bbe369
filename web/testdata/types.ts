// The types of the package, as a user sees them. The lines that must not compile are marked.
import {createBrowserSandbox, SandboxError, type ApprovalRequest, type Sandbox, type SandboxConfig, type StagedCommit} from '@golem-forge/browser';
import {generateText, streamText, type LanguageModel, type ToolSet} from 'ai';

const config: SandboxConfig = {
	zones: {notes: {mode: 'rw', suffixes: ['.md'], maxFileBytes: 10}, sources: {mode: 'ro'}},
	protect: ['.git'], tools: ['read_file'], rules: [{verb: 'write', target: '/notes', level: 'ask'}],
};
const sandbox: Sandbox = await createBrowserSandbox({workspaceId: 'a', config, approve: (request: ApprovalRequest) => ({approved: request.items.every(item => item.complete)})});
const text: string = await sandbox.read('/notes/a.md');
const bytes: Uint8Array = await sandbox.readBinary('/notes/a.md');
await sandbox.write('/notes/a.md', text);
await sandbox.writeBinary('/notes/a.md', bytes);
await sandbox.delete('/notes/a.md');
const names: string[] = [...await sandbox.list('/notes'), ...await sandbox.getAvailableZones(), await sandbox.resolve('/notes')];
const flags: boolean[] = [await sandbox.exists('/a'), await sandbox.isValidPath('/a'), await sandbox.canWrite('/a'), (await sandbox.stat('/a')).isFile, (await sandbox.verify()).ok];
const same: SandboxConfig = await sandbox.getConfig();
const access: 'ro' | 'rw' | '' = await sandbox.getZoneAccess('notes');
const child: Sandbox = await sandbox.restrict({restrict: '/notes', readonly: true});
const journal: Uint8Array = await sandbox.exportJournal();

const tools: ToolSet = sandbox.tools();
declare const model: LanguageModel;
await generateText({model, tools: sandbox.tools(), prompt: 'x'});
streamText({model, tools: {...tools, ...child.tools()}, prompt: 'x'});

const github = await sandbox.github({repository: 'a/b', branch: 'main', token: 't'});
const staged: StagedCommit = await github.stage({paths: ['a'], dir: '/notes', message: 'x'});
const commit: string = (await github.push(staged, {by: 'Ada'})).commit;
const code: string = new SandboxError({code: 'x', message: 'y'}).code;
export {names, flags, same, access, journal, commit, code};

// @ts-expect-error: an approval is not a boolean
await createBrowserSandbox({workspaceId: 'a', approve: () => true});
// @ts-expect-error: there is no such mode
await createBrowserSandbox({workspaceId: 'a', config: {zones: {a: {mode: 'w'}}}});
// @ts-expect-error: the workspace is missing
await createBrowserSandbox({});
// @ts-expect-error: writeBinary takes bytes
await sandbox.writeBinary('/a', 'x');
// @ts-expect-error: push takes what stage returned
await github.push('x');
