// The Worker of a sandbox: it runs golem.wasm, and passes messages between it and the page.
import './fs.js';
import './wasm_exec.js';

const decisions = new Map(); // questions that the page has not answered
let questions = 0;

globalThis.golemApprove = request => new Promise(resolve => {
	decisions.set(++questions, resolve);
	postMessage({question: questions, request});
});
// golemFetch sends a request to GitHub. The token goes only into the header, and to no other
// address than this one.
globalThis.golemFetch = async (method, url, token, body) => {
	try {
		const headers = {Accept: 'application/vnd.github+json', 'X-GitHub-Api-Version': '2022-11-28'};
		if (token) headers.Authorization = `Bearer ${token}`;
		if (body) headers['Content-Type'] = 'application/json';
		const response = await fetch(url, {method, headers, body: body || undefined, cache: 'no-store', credentials: 'omit',
			redirect: 'error', referrerPolicy: 'no-referrer', signal: AbortSignal.timeout(60_000)});
		const header = name => response.headers.get(name) ?? '';
		return JSON.stringify({status: response.status, body: await response.text(), remaining: header('X-RateLimit-Remaining'),
			reset: header('X-RateLimit-Reset'), after: header('Retry-After')});
	} catch {
		return '{"status": 0}';
	}
};
globalThis.golemReady = () => postMessage({ready: true});

self.onmessage = async ({data}) => {
	if (data.question !== undefined) {
		decisions.get(data.question)?.(data.decision);
		decisions.delete(data.question);
		return;
	}
	const [answer, content] = await globalThis.golemCall(data.request, data.content);
	postMessage({id: data.id, answer, content}, content ? [content.buffer] : []);
};

const go = new Go();
try {
	const response = await fetch(new URL('./golem.wasm', import.meta.url));
	if (!response.ok) throw new Error(`the server answers ${response.status} for golem.wasm`);
	const wasm = response.headers.get('Content-Type') === 'application/wasm'
		? await WebAssembly.instantiateStreaming(response, go.importObject)
		: await WebAssembly.instantiate(await response.arrayBuffer(), go.importObject);
	await go.run(wasm.instance);
	throw new Error('golem.wasm ended');
} catch (e) {
	postMessage({broken: e.message});
}
