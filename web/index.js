// Package @golem-forge/browser: a sandbox for AI workers in a page. See README.md.

/** An error of the sandbox. The code is stable, the message is for people. */
export class SandboxError extends Error {
	constructor({code, message, path}) {
		super(message);
		this.name = 'SandboxError';
		this.code = code;
		this.path = path;
	}
}

const invalid = message => new SandboxError({code: 'invalid_args', message});

/** A connection to a Worker, with the sandboxes in it. */
class Connection {
	constructor(approve) {
		this.approve = approve;
		this.calls = new Map();
		this.last = 0;
		this.open = 0;
		this.worker = new Worker(new URL('./worker.js', import.meta.url), {type: 'module', name: 'golem'});
		this.ready = new Promise((resolve, reject) => {
			this.fail = why => {
				this.broken ??= why instanceof SandboxError ? why : new SandboxError({code: 'internal', message: `the Worker of the sandbox failed: ${why}`});
				reject(this.broken);
				for (const call of this.calls.values()) call.reject(this.broken);
				this.calls.clear();
			};
			this.worker.onerror = e => this.fail(e.message ?? 'it cannot be loaded');
			this.worker.onmessage = ({data}) => {
				if (data.ready) resolve();
				else if (data.broken !== undefined) this.fail(data.broken);
				else if (data.question !== undefined) this.decide(data.question, data.request);
				else this.settle(data);
			};
		});
		this.ready.catch(() => {}); // each call says it
		// A page that the browser keeps for the back button must not keep the workspace.
		this.hide = () => this.stop();
		addEventListener('pagehide', this.hide);
	}

	/** decide asks the page. Without an answer that can be read, golem declines. */
	async decide(question, request) {
		let decision;
		try {
			decision = JSON.stringify(await this.approve(JSON.parse(request)));
		} catch (e) {
			decision = JSON.stringify({approved: false, note: 'the approve function of the page failed'});
			reportError(e);
		}
		this.worker.postMessage({question, decision: decision ?? ''});
	}

	settle({id, answer, content}) {
		const call = this.calls.get(id);
		this.calls.delete(id);
		const {value, error} = JSON.parse(answer);
		if (error) call.reject(new SandboxError(error));
		else call.resolve(content ?? value);
	}

	async call(sandbox, method, args, content) {
		const request = JSON.stringify({sandbox, method, args}, (key, value) => {
			const kind = value === null ? 'null' : typeof value;
			// JSON would leave functions and symbols out, and a limit that is missing is none.
			if (kind !== 'function' && kind !== 'symbol' && (method === 'call' || kind !== 'null' && kind !== 'undefined')) return value;
			throw invalid(`${method}: ${key} is ${kind}; omit it, or give it a value`);
		});
		await this.ready;
		if (this.broken) throw this.broken;
		return new Promise((resolve, reject) => {
			this.calls.set(++this.last, {resolve, reject});
			this.worker.postMessage({id: this.last, request, content: content instanceof Uint8Array ? content : undefined});
		});
	}

	stop() {
		this.fail(invalid('this sandbox is closed; open it with createBrowserSandbox'));
		this.worker.terminate();
		removeEventListener('pagehide', this.hide);
	}
}

const schemaSymbol = Symbol.for('vercel.ai.schema');
const validatorSymbol = Symbol.for('vercel.ai.validator');

// schemaOf returns a schema as the AI SDK has it. Golem itself checks the arguments of a call.
function schemaOf(jsonSchema) {
	const validate = value => ({success: true, value});
	return {[schemaSymbol]: true, [validatorSymbol]: true, jsonSchema, validate};
}

/** A sandbox. Its methods act for the page, and those of tools() for a model. */
class Sandbox {
	#connection;
	#id;
	#offered;

	constructor(connection, id, offered) {
		this.#connection = connection;
		this.#id = id;
		this.#offered = offered;
		connection.open++;
	}

	#call(method, args = {}, content) { return this.#connection.call(this.#id, method, args, content); }

	read(path) { return this.#call('read', {path}); }
	readBinary(path) { return this.#call('readBinary', {path}); }
	write(path, content) { return this.#call('write', {path, content}); }
	writeBinary(path, content) { return this.#call('writeBinary', {path}, content); }
	delete(path) { return this.#call('delete', {path}); }
	exists(path) { return this.#call('exists', {path}); }
	list(path) { return this.#call('list', {path}); }
	async stat(path) {
		const found = await this.#call('stat', {path});
		return {...found, modified: new Date(found.modified)};
	}
	resolve(path) { return this.#call('resolve', {path}); }
	isValidPath(path) { return this.#call('isValidPath', {path}); }
	canWrite(path) { return this.#call('canWrite', {path}); }
	getConfig() { return this.#call('getConfig'); }
	getZoneAccess(zone) { return this.#call('getZoneAccess', {path: zone}); }
	getAvailableZones() { return this.#call('getAvailableZones'); }
	async restrict(limits) { return new Sandbox(this.#connection, await this.#call('restrict', limits), this.#offered); }

	tools() {
		const tools = {__proto__: null}; // no tool is named constructor
		for (const {name, description, schema} of this.#offered) {
			tools[name] = {
				description,
				inputSchema: schemaOf(schema),
				execute: async args => {
					const {text, error} = await this.#call('call', {tool: name, args});
					if (error) throw new SandboxError({...error, message: text || error.message});
					return text;
				},
			};
		}
		return tools;
	}

	verify() { return this.#call('verify'); }
	exportJournal() { return this.#call('exportJournal'); }

	async github(options) { return new GitHub(this.#connection, this.#id, await this.#call('github', options)); }

	async close() {
		if (this.#id === 0) return;
		const closing = this.#call('close');
		this.#id = 0;
		try {
			await closing;
		} finally {
			if (--this.#connection.open === 0) this.#connection.stop();
		}
	}
}

/** A branch of a repository at GitHub. Its methods act for the page: no tool reaches them. */
class GitHub {
	#call;

	constructor(connection, sandbox, github) {
		this.#call = (method, args) => connection.call(sandbox, method, {...args, github});
	}

	pull(options) { return this.#call('pull', options); }
	stage(options) { return this.#call('stage', options); }
	push(staged, options) { return this.#call('push', {...options, id: staged?.id, digest: staged?.digest}); }
}

/** Opens a workspace of this origin, and makes it if there is none. */
export async function createBrowserSandbox(options) {
	const {workspaceId, config, approve} = options ?? {};
	if (approve !== undefined && typeof approve !== 'function') {
		throw invalid('createBrowserSandbox: approve must be a function');
	}
	const connection = new Connection(approve);
	try {
		const {id, tools} = await connection.call(0, 'open', {workspaceId, ...(config !== undefined && {config}), ask: approve !== undefined});
		return new Sandbox(connection, id, tools);
	} catch (e) {
		connection.stop();
		throw e;
	}
}
