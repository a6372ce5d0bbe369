// A model of the user works on notes in the page. Each change in /notes needs approval.
import {createOpenAICompatible} from '@ai-sdk/openai-compatible';
import {createBrowserSandbox, type ApprovalRequest, type Decision} from '@golem-forge/browser';
import {stepCountIs, streamText} from 'ai';

const find = <E extends Element>(selector: string) => document.querySelector<E>(selector)!;

function add(parent: Element, tag: string, text: string) {
	const element = document.createElement(tag);
	element.textContent = text; // the texts come from a model: never innerHTML
	parent.append(element);
}

// A model may make several calls at once. The page asks about one after the other.
let asking: Promise<unknown> = Promise.resolve();
function approve(request: ApprovalRequest): Promise<Decision> {
	const decision = asking.then(() => ask(request));
	asking = decision;
	return decision;
}

function ask(request: ApprovalRequest): Promise<Decision> {
	const dialog = find<HTMLDialogElement>('#ask');
	find('#ask h2').textContent = `The model wants to call ${request.tool}`;
	find('#ask pre').textContent = [...request.risks, ...request.effects, ...request.items.map(item => `${item.name}\n${item.text}`)].join('\n\n');
	dialog.returnValue = '';
	dialog.showModal();
	return new Promise(resolve => dialog.addEventListener('close', () => resolve({approved: dialog.returnValue === 'approve', by: 'the user'}), {once: true}));
}

const sandbox = await createBrowserSandbox({
	workspaceId: 'notes',
	config: {
		zones: {notes: {mode: 'rw', suffixes: ['.md']}, drafts: {mode: 'rw'}, sources: {mode: 'ro'}},
		protect: ['.git'],
		rules: [{verb: 'write', target: '/drafts', level: 'preApproved'}],
	},
	approve,
});

find<HTMLFormElement>('#task').onsubmit = async event => {
	event.preventDefault();
	const data = new FormData(event.target as HTMLFormElement);
	const value = (name: string) => String(data.get(name));
	const {chatModel} = createOpenAICompatible({name: 'own', baseURL: value('endpoint'), apiKey: value('key')});
	const log = find('#log'), status = find('#status');
	log.replaceChildren();
	status.textContent = 'The model works.';
	let failed = '';
	const stream = streamText({
		model: chatModel(value('model')), tools: sandbox.tools(), stopWhen: stepCountIs(20), prompt: value('prompt'),
		onError: ({error}) => { failed = String(error); },
	});
	for await (const part of stream.fullStream) {
		if (part.type === 'tool-result') add(log, 'li', `${part.toolName}: ${part.output}`);
		if (part.type === 'tool-error') add(log, 'li', `${part.toolName} failed: ${part.error}`);
	}
	if (failed === '') add(log, 'li', await stream.text);
	const {ok, records, problem} = await sandbox.verify();
	status.textContent = failed || (ok ? `Done. The journal has ${records} records.` : `The journal is damaged: ${problem}`);
};
find('#status').textContent = 'The workspace is open.';
