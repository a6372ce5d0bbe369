// The Worker of a sandbox: it runs golem.wasm, and passes messages between it and the page.
import './fs.js';
import './wasm_exec.js';

const decisions = new Map(); // questions that the page has not answered
let questions = 0;

globalThis.golemApprove = request => new Promise(resolve => {
	decisions.set(++questions, resolve);
	postMessage({question: questions, request});
});
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
