// The loop of a worker: the model calls tools until it has an answer.

const maxSteps = 20;

/** Runs a worker. The model gets the messages so far, and returns {text, calls}. */
export async function runWorker({model, tools, log}) {
	const messages = [];
	for (let step = 0; step < maxSteps; step++) {
		const {text, calls} = await model(messages, tools);
		if (text) log(text);
		messages.push({role: 'assistant', content: text, calls});
		if (calls.length === 0) return;
		for (const {id, name, args} of calls) {
			let result;
			try {
				if (!Object.hasOwn(tools, name)) throw new Error(`there is no tool ${name}`);
				result = await tools[name].execute(args);
			} catch (e) {
				result = `error: ${e.message}`;
			}
			log(`${name}: ${result}`);
			messages.push({role: 'tool', id, content: result});
		}
	}
	log(`The worker has made ${maxSteps} steps, and stops.`);
}

/** A script in the place of a model. It also tries what the sandbox does not allow. */
export function scripted() {
	const steps = [
		{text: 'I look at what is there.', calls: [{name: 'list_files', args: {path: '/work'}}]},
		{text: 'I try to leave the workspace.', calls: [{name: 'read_file', args: {path: '/work/../../etc/passwd'}}]},
		{text: 'I write a draft, which needs no approval.', calls: [{name: 'write_file', args: {path: '/drafts/shopping.md', content: 'flour, milk, eggs\n'}}]},
		{text: 'I write the list, which needs approval.', calls: [{name: 'write_file', args: {path: '/work/shopping.md', content: '# Pancakes\n\n- flour\n- milk\n- eggs\n'}}]},
		{text: 'Done.', calls: []},
	];
	return () => steps.shift();
}
