// The loop of a worker: the model calls tools until it has an answer.

const maxSteps = 20;

/** Runs a worker. The model gets the messages so far, and returns {text, calls}. */
export async function runWorker({model, tools, prompt, log}) {
	const messages = [{role: 'user', content: prompt}];
	for (let step = 0; step < maxSteps; step++) {
		const {text, calls} = await model(messages, tools);
		if (text) log(text);
		messages.push({role: 'assistant', content: text, calls});
		if (calls.length === 0) return;
		for (const {id, name, args} of calls) {
			let result;
			try {
				if (!Object.hasOwn(tools, name)) throw new Error(`there is no tool ${name}`);
				result = await tools[name].execute(typeof args === 'string' ? JSON.parse(args) : args);
			} catch (e) {
				result = `error: ${e.message}`;
			}
			log(`${name}: ${result}`);
			messages.push({role: 'tool', id, content: result});
		}
	}
	log(`The worker has made ${maxSteps} steps, and stops.`);
}

/** A model at an endpoint for chat completions. Only memory has the key. */
export function real({endpoint, name, key}) {
	if (!/^(https:\/\/|http:\/\/(127\.0\.0\.1|localhost)[:/])/.test(endpoint)) throw new Error('the endpoint gets the key, so it must have https');
	return async (messages, tools) => {
		const body = {
			model: name,
			messages: messages.map(({role, id, content, calls}) => ({role, content, ...id && {tool_call_id: id},
				...calls?.length && {tool_calls: calls.map(c => ({id: c.id, type: 'function', function: {name: c.name, arguments: c.args}}))}})),
			tools: Object.entries(tools).map(([name, {description, inputSchema}]) => ({type: 'function', function: {name, description, parameters: inputSchema.jsonSchema}})),
		};
		const response = await fetch(`${endpoint}/chat/completions`, {method: 'POST', body: JSON.stringify(body), cache: 'no-store', credentials: 'omit', redirect: 'error',
			referrerPolicy: 'no-referrer', headers: {'Content-Type': 'application/json', ...key && {Authorization: `Bearer ${key}`}}});
		if (!response.ok) throw new Error(`the endpoint answers ${response.status}`);
		const {message, finish_reason: why} = (await response.json()).choices[0];
		if (why === 'length') throw new Error('the answer of the model is too long; nothing of it was done');
		return {text: message.content ?? '', calls: (message.tool_calls ?? []).map(c => ({id: c.id, name: c.function.name, args: c.function.arguments}))};
	};
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
