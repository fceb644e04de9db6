# The Metal player on Linux, over a fake Foundation and Metal whose command buffers run on the emulator: clang compiles
# Objective-C++ against GCC's runtime, everything else is what the library itself is made of.
OBJCXX := clang++-19
LIBOBJC := $(wildcard $(shell gcc -print-file-name=libobjc.so 2>/dev/null))
METAL_LACKS := $(if $(shell command -v $(OBJCXX)),,clang-19) $(if $(LIBOBJC),,libobjc-12-dev)
FAKE := $(BUILD)/obj/fake
FAKE_LIB := $(BUILD)/metal-fake/liblapwing.so
OBJCXXFLAGS := -x objective-c++ -fobjc-runtime=gcc -fconstant-string-class=NSConstantString -fblocks -fno-objc-arc -std=c++17 \
	-O1 -g1 -fPIC -fvisibility=hidden -pthread -Wall -Wextra $(WERROR) -Wno-objc-root-class -I. -I$(BUILD)/fake/include -MMD -MP $(SANITIZE)
FAKE_OBJECTS := $(FAKE)/native/core/api.o $(FAKE)/guard.o $(BUILD)/obj/metal/sources.o \
	$(patsubst %,$(FAKE)/%.o,$(basename $(wildcard native/metal/*.mm tests/metal/fake/*.mm tests/metal/fake/*.cc))) \
	$(filter-out %/core/api.o,$(filter $(BUILD)/obj/native/core/% $(BUILD)/obj/native/null/% $(BUILD)/obj/native/emu/%,$(OBJECTS))) \
	$(BUILD)/obj/native/cpu/pool.o $(METAL_OPS:%=$(BUILD)/obj/emu/%.o)

# The fake's headers under the names of Apple's.
FAKE_HEADERS := $(BUILD)/fake/include/Foundation/Foundation.h $(BUILD)/fake/include/Metal/Metal.h
$(FAKE_HEADERS):
	@mkdir -p $(@D)
	@echo '#include "tests/metal/fake/$(shell echo $(basename $(notdir $@)) | tr FM fm).h"' > $@

$(FAKE)/%.o: %.mm $(FAKE_HEADERS)
	@mkdir -p $(@D)
	@echo "  OBJC $<"
	$(Q)$(OBJCXX) $(OBJCXXFLAGS) -c $< -o $@

$(FAKE)/%.o: %.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(CXX) $(CXXFLAGS) -DLW_METAL -c $< -o $@

$(BUILD)/fake/guard.cc: native/metal/guard.metal $(TRANSLATOR)
	@echo "  MSL  $@"
	$(Q)$(RUN_DENO) run --quiet --allow-read --allow-write --allow-run --allow-env native/msl/main.ts emu $(@D) $<

$(FAKE)/guard.o: $(BUILD)/fake/guard.cc
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(CXX) $(CXXFLAGS) $(EMU_FLAGS) -Inative/shim/emu -c $< -o $@

$(FAKE_LIB): $(FAKE_OBJECTS)
	@mkdir -p $(@D)
	@echo "  LINK $@"
	$(Q)$(CXX) $(SHARED) $(SANITIZE) -o $@.part $^ $(LIBOBJC)
	@mv -f $@.part $@

# The same as a program under clang's sanitizers. The emulator's fibers tell the race detector of themselves.
ifdef SIMT_TSAN
$(BUILD)/obj/native/emu/simt.o: CXXFLAGS := $(filter-out -fsanitize=%,$(CXXFLAGS)) -DSIMT_TSAN
endif
$(BUILD)/metal_suite: tests/metal/suite.cc tests/native/case_file.h $(FAKE_OBJECTS)
	@echo "  LINK $@"
	$(Q)$(CXX) $(CXXFLAGS) $< $(FAKE_OBJECTS) $(LIBOBJC) -ldl -o $@

METAL_CASES := build/metal-cases.bin
$(METAL_CASES): build/metal-fake/liblapwing.so tests/metal/dump_tapes.ts tests/metal/tapes.ts node_modules/.ready
	@$(RUN_DENO) run --quiet --allow-read --allow-write --allow-ffi tests/metal/dump_tapes.ts $@
METAL_SAN = $(MAKE) --no-print-directory CXX=$(OBJCXX) OPTIMISE=-O1

ifeq ($(strip $(METAL_LACKS)),)
san-metal: metal-address metal-thread ## the Metal player over the fake under clang's ASan with UBSan, and TSan
metal-address: $(METAL_CASES)
	+@$(METAL_SAN) BUILD=build/metal-address SANITIZE="-fsanitize=address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=all" \
		build/metal-address/metal_suite
	build/metal-address/metal_suite $(METAL_CASES)
metal-thread: $(METAL_CASES)
	+@$(METAL_SAN) BUILD=build/metal-thread SANITIZE=-fsanitize=thread SIMT_TSAN=1 build/metal-thread/metal_suite
	build/metal-thread/metal_suite $(METAL_CASES)
	@if build/metal-thread/metal_suite $(METAL_CASES) 1 > build/metal-thread/planted 2>&1; then \
		echo "a barrier left out was not seen"; exit 1; \
	else grep -m1 "data race" build/metal-thread/planted > /dev/null && echo "1 passed, 0 failed"; fi

test-metal: $(FAKE_LIB) node_modules/.ready ## the Metal player over a fake Metal (Linux)
	@$(RUN_DENO) test $(TEST_PERMISSIONS) --junit-path=$(BUILD)/metal.xml tests/metal
else
san-metal:
	@echo "skipped: the Metal player's sanitizers need $(strip $(METAL_LACKS)) (apt-get install)"
test-metal: node_modules/.ready
	@echo "skipped: the Metal player's tests need $(strip $(METAL_LACKS)) (apt-get install)"
	@$(RUN_DENO) test $(TEST_PERMISSIONS) --junit-path=$(BUILD)/metal.xml tests/metal
endif

-include $(FAKE_OBJECTS:.o=.d)
