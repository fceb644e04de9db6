// Prints what every compiled .metal kernel takes of the limits that its translation asserts: 1024 threads and 32768
// bytes of threadgroup memory, 31 buffers. Kernels of one op with equal numbers share a line.
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "native/emu/simt.h"

int main() {
	typedef std::tuple<std::string, uint32_t, uint32_t, uint32_t> line;  // op, threads, bytes, buffers
	std::map<line, std::vector<std::string>> lines;
	for (const simt::Kernel* k = simt::registry; k; k = k->next) {
		const std::string name = k->name;
		const size_t end = name.find("__");
		const std::string variant = end == std::string::npos ? "" : name.substr(end + 2);
		lines[{name.substr(0, end), k->threads, k->threadgroup_bytes, k->buffers}].push_back(variant);
	}
	printf("%-24s %8s %8s %8s  variants\n", "op", "threads", "bytes", "buffers");
	for (const auto& [key, variants] : lines) {
		const auto& [op, threads, bytes, buffers] = key;
		printf("%-24s %8u %8u %8u ", op.c_str(), threads, bytes, buffers);
		if (variants.size() > 6) printf(" %zu of them", variants.size());
		else
			for (auto v = variants.rbegin(); v != variants.rend(); ++v) printf(" %s", v->c_str());
		printf("\n");
	}
	return lines.empty();
}
